# SPDX-License-Identifier: MIT
"""A worker's own folder for temporary files, which the machine's next worker removes if this one was killed.

Its lock proves that a worker is dead: the kernel releases the lock with the process, however that ends. A process
number proves nothing, as it may be reused.
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
    """Within the context, all temporary files of this process are in its own folder; folders of this user's dead
    workers are removed. `name`: unique among all workers. Raises HeaptapeError where the folder can't be made.
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
    """Removes the folders of workers whose locks nobody holds. The caller holds the lock of all."""
    for path in root.glob("[!.]*.lock"):
        with suppress(BlockingIOError), locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):  # else it is alive
            _remove(root, path.stem)


def _remove(root: Path, name: str) -> None:
    """Removes the folder first: without its lock file nobody would remove it."""
    shutil.rmtree(root / name, ignore_errors=True)
    with suppress(FileNotFoundError):
        (root / f"{name}.lock").unlink()


def _root() -> Path:
    """A folder that only this user can access, in the temporary folder that all users share."""
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
    """Meanwhile no other worker begins, ends or removes folders."""
    with locked(root / ".lock", fcntl.LOCK_EX):
        yield
