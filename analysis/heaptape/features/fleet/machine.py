# SPDX-License-Identifier: MIT
"""What a worker has of its machine: what determines exact figures, copies of a store's files, who may run, scratch.

Copies (workloads and libraries) are in ~/.cache/heaptape/fleet, which may be deleted at any time. Each is fetched once
and checked by its hash; if several processes need the same file, one fetches it and the others wait.

Temporary files are in a worker's own folder, which the machine's next worker removes if this one was killed. The
folder's lock proves that a worker is dead: the kernel releases it with the process, however that ends. A process number
proves nothing, as it may be reused.
"""

import fcntl
import functools
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import locked
from heaptape.features.fleet.store import Store, digest
from heaptape.run.registry import c_library, sha256_of

VALGRIND_TOOL = "valgrind/heaptape-amd64-linux"  # beside the engine, where it is built


@functools.cache
def engine_hash(home: Home) -> str:
    """Hash of the engine, of the Valgrind tool under which it counts, and of the C library on which both run. And of
    the engine's path, which affects start-up and the stack: the same engine at another path differs by about 0.3 % in
    misses.
    """
    engine = home.program("replay").resolve()
    tool = engine.parent / VALGRIND_TOOL
    files = [sha256_of(engine), sha256_of(tool) if tool.is_file() else "", sha256_of(running_c_library())]
    return digest([*files, str(engine)])


def running_c_library() -> Path:
    """Path of the C library. Raises HeaptapeError where it can't be found."""
    path = c_library()
    if path is None:
        raise HeaptapeError("the C library of this process can't be found")
    return path


def machine_id(name: str = "") -> str:
    """Id of this machine: the same at each start, without revealing its name. `name`: of a part that is to count as a
    separate machine.
    """
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    return hashlib.sha256(f"heaptape fleet {machine} {platform.node()} {name}".encode()).hexdigest()[:16]


class DamagedError(HeaptapeError):
    """A file of the store does not have the hash in its name: whoever started the plan has to supply it again."""


class Cache:
    """`folder`: of this user, on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._checked: dict[str, tuple[int, int, int]] = {}  # path -> inode, size and time when its hash was right

    def file(self, store: Store, name: str, sha256: str) -> Path:
        """Path of this machine's copy of a store's file. Raises DamagedError if the store's file has another hash or is
        missing, StoreError if the store can't be read, OSError if the copy can't be written.
        """
        path = self.folder / name
        if self._matches(path, sha256):
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.with_name(f"{path.name}.lock"), fcntl.LOCK_EX):
            if not self._matches(path, sha256):
                self._fetch(store, name, sha256, path)
        return path

    def lock_file(self, machine: str) -> Path:
        """The lock by which a machine's processes agree on who may run; machines may share a home directory."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self.folder / f"{machine}.lock"

    def _fetch(self, store: Store, name: str, sha256: str, path: Path) -> None:
        partial = path.with_name(f"{path.name}.partial")
        try:
            there = store.files.download(name, partial)
            if not there or sha256_of(partial) != sha256:
                what = "damaged" if there else "missing"
                if there:  # so that whoever has the file uploads it again
                    store.set_aside(name, "has another hash than its name")
                raise DamagedError(f"{store.url}: {name} is {what}: start 'fleet replay' with its file again")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        self._matches(path, sha256)

    def _matches(self, path: Path, sha256: str) -> bool:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return False
        seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if self._checked.get(str(path)) != seen:
            if sha256_of(path) != sha256:
                return False
            self._checked[str(path)] = seen
        return True


@contextmanager
def machine_for(cache: Cache, machine: str, alone: bool) -> Iterator[None]:
    """Reserves the machine for one task: alone, or shared with other tasks. A task that needs it alone is served in
    order: later tasks wait at the gate behind it.
    """
    lock = cache.lock_file(machine)
    with (
        locked(lock.with_suffix(".gate"), fcntl.LOCK_EX) as gate,
        locked(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH),
    ):
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


@contextmanager
def scratch_of(name: str) -> Iterator[None]:
    """Within the context, all temporary files of this process are in its own folder; folders of this user's dead
    workers are removed. `name`: unique among all workers. Raises HeaptapeError where the folder can't be made.
    """
    before, root = tempfile.tempdir, _root()
    own = root / name
    with ExitStack() as held:
        with locked(root / ".lock", fcntl.LOCK_EX):  # meanwhile no other worker begins
            for left in root.glob("[!.]*"):
                with suppress(OSError), locked(left):  # else its worker is alive
                    shutil.rmtree(left, ignore_errors=True)
            own.mkdir(mode=0o700)
            held.enter_context(locked(own))
        tempfile.tempdir = str(own)
        try:
            yield
        finally:
            tempfile.tempdir = before
            shutil.rmtree(own, ignore_errors=True)


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
