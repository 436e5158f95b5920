# SPDX-License-Identifier: MIT
"""Where a worker has its temporary files: a folder of its own, which the next worker of the machine removes where this
one was killed.

That it is dead is proved by its lock: the kernel gives it up with the process, however that ends, and a number of a
process that is used again proves nothing.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.fleet.running.cache import locked


@contextmanager
def of_worker(name: str) -> Iterator[None]:
    """As long as the context lasts, all temporary files of this process are in its own folder; what dead workers of
    this user left is removed. `name`: among all workers. Raises HeaptapeError where there is no place for it.
    """
    before, root = tempfile.tempdir, _root()
    with ExitStack() as own:
        with _all_of(root):
            _remove_dead(root)
            own.enter_context(locked(root / f"{name}.lock", fcntl.LOCK_EX))
            (root / name).mkdir(mode=0o700)
        tempfile.tempdir = str(root / name)
        try:
            yield
        finally:
            tempfile.tempdir = before
            with _all_of(root):
                _remove(root, name)


def _remove_dead(root: Path) -> None:
    """Of the workers whose locks nobody holds. The caller holds the lock of all."""
    for path in root.glob("[!.]*.lock"):
        with suppress(BlockingIOError), locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):  # else it lives
            _remove(root, path.stem)


def _remove(root: Path, name: str) -> None:
    """The folder first: what is left of it without its lock nobody would remove."""
    shutil.rmtree(root / name, ignore_errors=True)
    with suppress(FileNotFoundError):
        (root / f"{name}.lock").unlink()


def _root() -> Path:
    """This user's, and no other's: temporary folders are everybody's."""
    root = Path(tempfile.gettempdir()) / f"heaptape-fleet.{os.getuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        about = root.lstat()
    except OSError as error:
        raise HeaptapeError(f"{root}: {error.strerror}") from None
    if about.st_uid != os.getuid() or about.st_mode & 0o077 or root.is_symlink():
        raise HeaptapeError(f"{root}: is not this user's alone")
    return root


@contextmanager
def _all_of(root: Path) -> Iterator[None]:
    """Nobody else begins, ends or removes meanwhile."""
    with locked(root / ".lock", fcntl.LOCK_EX):
        yield
