# SPDX-License-Identifier: MIT
"""The files of a store, by name within it: a folder, or any URL that fsspec supports.

Files appear atomically. In a folder, a file is written beside its place, flushed to the disk and renamed. An object
store takes it in one request, or in parts that become visible together. Operations wait while a disk is full, or a
store is unreachable, slow or refusing.

No process holds a lock in a store. Two writers of the same name write the same content, or either content is fine;
where only the first may count there is `create`.
"""

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import replace_whole, whole_file
from heaptape.common.process import outlive_peers

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

MISSING = "needs more packages: pip install 'heaptape[fleet]'"
# Names in a store. Neither `..` nor a leading dot, so that none leads out of it.
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._=%-]*(/[A-Za-z0-9_-][A-Za-z0-9._=%-]*){0,5}\Z")
COPIED_BYTES = 1 << 20
# Such secrets would appear in every message, status and script, and be kept with each trace.
SECRET = re.compile(r"//[^/@]*:[^/@]*@|[?&][^=&]*(key|password|secret|sig|signature|token)=", re.IGNORECASE)
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
WITHOUT_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP}  # errors of link() on file systems without links


class StoreError(HeaptapeError):
    """The store can't be read or written, even after the full waiting time."""


@dataclass(frozen=True)
class Patience:
    """`seconds`: how long a failing operation is tried again, each time after a longer wait. `tell`: called with one
    line before the first wait of an operation.
    """

    seconds: float
    tell: Callable[[str], None]
    sleep: Callable[[float], None]

    def wait_for(
        self, work: Callable[[], T], what: str, may_pass: Callable[[Exception], bool], raised: type[HeaptapeError]
    ) -> T:
        """Returns the result of `work`. `what`: the problem, for messages. Raises `raised` where an error that may be
        temporary (`may_pass`) lasts.
        """
        waited, wait_s = 0.0, FIRST_WAIT_S
        while True:
            try:
                return work()
            except Exception as error:
                if not may_pass(error):
                    raise
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                if waited >= self.seconds:
                    after = f" after {waited:.0f} s of waiting" if waited else ""
                    raise raised(f"{what}{after}: {why}") from error
                if not waited:
                    self.tell(f"{what}: {why}: waiting for it")
            self.sleep(wait_s)
            waited += wait_s
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)


class Files:
    """`patience_s`, `tell`, `sleep`: of the Patience for all operations here."""

    def __init__(
        self,
        url: str,
        patience_s: float = 0,
        tell: Callable[[str], None] = lambda line: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not url.isprintable():
            raise HeaptapeError(f"{url!r}: no store")
        self.url, self.patience = url, Patience(patience_s, tell, sleep)
        self._process = os.getpid()
        self._opened, root = located(url, "no store: ")
        self._root = root.rstrip("/") or "/"
        self._local = is_local(self._opened)

    @property
    def system(self) -> "AbstractFileSystem":
        """The file system, for libraries that read files themselves. Each process has its own: connections and their
        threads do not survive a fork.
        """
        if self._process != os.getpid():
            self._opened, _ = located(self.url, "no store: ")
            self._process = os.getpid()
        return self._opened

    def path(self, name: str) -> str:
        """The name's path in the file system. Raises HeaptapeError for a name that a store can't have."""
        if not NAME.match(name):
            raise HeaptapeError(f"{self.url}: '{name[:80]}' is not a name in a store")
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        """The file's content; None if there is no such file. Raises StoreError."""
        path = self.path(name)
        # s3fs would request the size first, to read in parts: two requests in place of one for small files.
        whole = {"max_concurrency": 1} if "s3" in self.system.protocol else {}

        def read() -> bytes:
            return Path(path).read_bytes() if self._local else self.system.cat_file(path, **whole)

        return self._or_none(read, "can't be read")

    def write(self, name: str, data: bytes) -> None:
        """Writes the file atomically. Raises StoreError."""
        path = self.path(name)

        def write() -> None:
            if not self._local:
                self.system.pipe_file(path, data)
                return
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            replace_whole(Path(path), data, durable=True)

        self._patiently(write, "can't be written")

    def create(self, name: str, data: bytes) -> bool:
        """Writes the file atomically, unless there is one of that name: False. Of several concurrent writers one
        succeeds, in a folder and on object stores with conditional writes, such as S3. Raises StoreError.
        """
        path = self.path(name)

        def create() -> bool:
            try:
                if self._local:
                    _create_whole(Path(path), data)
                else:
                    self.system.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            return True

        return self._patiently(create, "can't be written")

    def upload(self, source: Path, name: str) -> None:
        """Uploads a file of this machine, unless one of that size is there under that name."""
        path = self.path(name)

        def put() -> None:
            if self._local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                _copy_whole(source, Path(path))
            else:
                self.system.put_file(str(source), path)

        if self.size(name) != source.stat().st_size:
            self._patiently(put, "can't be written")

    def download(self, name: str, target: Path) -> bool:
        """Copies a file to this machine; False if there is none of that name. Raises StoreError, or OSError where the
        target can't be written.
        """
        path = self.path(name)
        stream: IO[bytes] | None = self._or_none(lambda: self.system.open(path, "rb"), "can't be read")
        if stream is None:
            return False
        with stream, target.open("wb") as file:
            while chunk := self._patiently(partial(stream.read, COPIED_BYTES), "can't be read"):
                file.write(chunk)
        return True

    def size(self, name: str) -> int | None:
        """Size in bytes; None if there is no such file."""
        path = self.path(name)

        def size() -> int:
            self.system.invalidate_cache()
            return int(self.system.size(path))

        return self._or_none(size, "can't be read")

    def modified_s(self, name: str) -> float | None:
        """When it was written, in s since 1970 by the storage's clock; None if there is no such file."""
        path = self.path(name)

        def modified_s() -> float:
            self.system.invalidate_cache()
            return self.system.modified(path).timestamp()

        return self._or_none(modified_s, "can't be read")

    def names(self, folder: str) -> list[str]:
        """Names of all files below `folder`, sorted; without files that are being written."""
        path = self.path(folder)

        def names() -> list[str]:
            self.system.invalidate_cache()
            return sorted(_below(path)) if self._local else sorted(self.system.find(path))

        found = [name.removeprefix(f"{self._root}/") for name in self._patiently(names, "can't be listed")]
        return [name for name in found if NAME.match(name) and not name.endswith(".partial")]

    def is_empty(self, but: str) -> bool:
        """Is there nothing at the URL, except files whose names begin with `but`?"""

        def is_empty() -> bool:
            try:
                found = self.system.ls(self._root, detail=False)
            except FileNotFoundError:
                return True
            return all(name.rstrip("/").rpartition("/")[2].startswith(but) for name in found)

        return self._patiently(is_empty, "can't be read")

    def move(self, name: str, to: str) -> None:
        """Renames a file, if it is there: another process may have renamed it."""
        source, target = self.path(name), self.path(to)

        def move() -> None:
            if self._local:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                self.system.mv(source, target)

        self._patiently(move, "can't be written")

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        self._or_none(lambda: self.system.rm_file(self.path(name)), "can't be written")

    def _or_none(self, work: Callable[[], T], what: str) -> T | None:
        """The result of `work`; None if there is no such file."""

        def attempt() -> T | None:
            try:
                return work()
            except FileNotFoundError:
                return None

        return self._patiently(attempt, what)

    def _patiently(self, work: Callable[[], T], what: str) -> T:
        return self.patience.wait_for(work, f"{self.url}: {what}", _is_of_storage, StoreError)


def located(url: str, problem: str = "") -> "tuple[AbstractFileSystem, str]":
    """The file system of a URL or path, and the path in it. `problem`: prefix of an error's text. Raises HeaptapeError
    where there is no such file system, and where the URL contains a password or key.
    """
    if "://" in url and SECRET.search(url):
        kind = url.partition("://")[0]
        raise HeaptapeError(
            f"{kind}://...: {problem}a password or key in a URL would be shown to everybody: give it by the "
            "environment (AWS_SECRET_ACCESS_KEY and the like) or in fsspec's own configuration"
        )
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise HeaptapeError(f"fleet {MISSING}") from None
    try:
        system, path = url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        raise HeaptapeError(f"{url}: {problem}{error}") from None
    if not is_local(system):
        outlive_peers()
    return system, path


def is_local(system: "AbstractFileSystem") -> bool:
    return "file" in ([system.protocol] if isinstance(system.protocol, str) else system.protocol)


def _is_of_storage(error: Exception) -> bool:
    """Is the error from the disk, the network or the service, not a mistake of ours? Their clients have own errors."""
    ours = (HeaptapeError, TypeError, AttributeError, NameError, LookupError, AssertionError)
    return isinstance(error, OSError) or not isinstance(error, (*ours, ValueError))


def _copy_whole(source: Path, target: Path) -> None:
    """Copies a file that may be larger than memory."""
    with source.open("rb") as original, whole_file(target, durable=True) as copy:
        shutil.copyfileobj(original, copy, COPIED_BYTES)


def _create_whole(target: Path, data: bytes) -> None:
    """Creates a file atomically. Raises FileExistsError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    whole = target.with_name(f"{target.name}.{uuid.uuid4().hex}.partial")
    replace_whole(whole, data, durable=True)
    try:
        os.link(whole, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in WITHOUT_LINKS:
            raise
        with target.open("xb") as file:
            file.write(data)
    finally:
        whole.unlink()


def _below(folder: str) -> Iterator[str]:
    for place, _, files in os.walk(folder):
        for file in files:
            yield f"{place}/{file}"
