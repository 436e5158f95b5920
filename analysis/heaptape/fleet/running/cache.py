# SPDX-License-Identifier: MIT
"""A machine's copies of a store's files: workloads and libraries, each fetched once and checked by its hash.

In ~/.cache/heaptape/fleet, which may be deleted at any time. If several processes need the same file, one fetches it
and the others wait. A file whose hash no longer matches is fetched again.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from heaptape.common.errors import HeaptapeError
from heaptape.fleet.store.store import Store
from heaptape.run.registry import sha256_of


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
        if self._is_right(path, sha256):
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.with_name(f"{path.name}.lock"), fcntl.LOCK_EX):
            if not self._is_right(path, sha256):
                self._bring(store, name, sha256, path)
        return path

    def lock_file(self, machine: str) -> Path:
        """The lock by which a machine's processes agree on who may run; machines may share a home directory."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self.folder / f"{machine}.lock"

    def _bring(self, store: Store, name: str, sha256: str, path: Path) -> None:
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
        self._is_right(path, sha256)

    def _is_right(self, path: Path, sha256: str) -> bool:
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
def locked(path: Path, how: int) -> Iterator[IO[str]]:
    """The file, held by flock: LOCK_EX alone, LOCK_SH with others."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        fcntl.flock(file, how)
        yield file


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
