# SPDX-License-Identifier: MIT
"""The files of a store, by name within it: a folder, or whatever fsspec has an URL for.

A file appears whole or not at all: in a folder it is written beside its place, flushed to the disk and renamed; an
object store takes it in one request, or in parts that it shows when it has all. A disk that is full, and a store that
is away, slow or refuses for a while, is waited for.

Nobody holds a lock in a store. Two that write the same name write the same content, or either's will do; where only
the first may count there is `create`.
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

from heaptape.common.connections import outlive_peers
from heaptape.common.errors import HeaptapeError
from heaptape.common.output import replace_whole, whole_file

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

MISSING = "needs more packages: pip install 'heaptape[fleet]'"
# What a store has names for. Neither `..` nor a leading dot, so that none leads out of it.
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._=%-]*(/[A-Za-z0-9_-][A-Za-z0-9._=%-]*){0,5}\Z")
COPIED_BYTES = 1 << 20
# What would be told in every message, status and script, and kept with each trace.
SECRET = re.compile(r"//[^/@]*:[^/@]*@|[?&][^=&]*(key|password|secret|sig|signature|token)=", re.IGNORECASE)
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
WITHOUT_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP}  # what file systems that have none say to link()


class StoreError(HeaptapeError):
    """The store can't be read or written, though it was tried for as long as was to be waited."""


@dataclass(frozen=True)
class Patience:
    """`seconds`: how long an operation that fails is tried again, each time after a longer wait. `tell`: is given one
    line before the first wait of an operation.
    """

    seconds: float
    tell: Callable[[str], None]
    sleep: Callable[[float], None]

    def wait_for(
        self, work: Callable[[], T], what: str, may_pass: Callable[[Exception], bool], raised: type[HeaptapeError]
    ) -> T:
        """What it gives. `what`: of it fails, for people. Raises `raised` where an error that may pass does not."""
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
    """`patience_s`, `tell`, `sleep`: of the Patience by which all is done here."""

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
        """What has the files, for libraries that read by themselves. One of this process's own: connections and the
        threads behind them do not outlive a fork.
        """
        if self._process != os.getpid():
            self._opened, _ = located(self.url, "no store: ")
            self._process = os.getpid()
        return self._opened

    def path(self, name: str) -> str:
        """As the file system knows it. Raises HeaptapeError for a name that is none of a store's."""
        if not NAME.match(name):
            raise HeaptapeError(f"{self.url}: '{name[:80]}' is no name in a store")
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        """None if there is no such file. Raises StoreError."""
        path = self.path(name)
        # s3fs would ask for the size first, so as to read parts at a time: of small files two requests for one.
        whole = {"max_concurrency": 1} if "s3" in self.system.protocol else {}

        def read() -> bytes:
            return Path(path).read_bytes() if self._local else self.system.cat_file(path, **whole)

        return self._if_there(read, "can't be read")

    def write(self, name: str, data: bytes) -> None:
        """The whole file or nothing. Raises StoreError."""
        path = self.path(name)

        def write() -> None:
            if not self._local:
                self.system.pipe_file(path, data)
                return
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            replace_whole(Path(path), data, durable=True)

        self._patiently(write, "can't be written")

    def create(self, name: str, data: bytes) -> bool:
        """The whole file, unless there is one of that name: False. Of several that try at a time one succeeds, in a
        folder and on object stores that know conditional writes, as S3's do. Raises StoreError.
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
        """A file of this machine, unless one of that size is there under that name."""
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
        """Into a file of this machine; False if there is none of that name. Raises StoreError, or OSError where the
        target can't be written.
        """
        path = self.path(name)
        stream: IO[bytes] | None = self._if_there(lambda: self.system.open(path, "rb"), "can't be read")
        if stream is None:
            return False
        with stream, target.open("wb") as file:
            while chunk := self._patiently(partial(stream.read, COPIED_BYTES), "can't be read"):
                file.write(chunk)
        return True

    def size(self, name: str) -> int | None:
        """In bytes; None if there is no such file."""
        path = self.path(name)

        def size() -> int:
            self.system.invalidate_cache()
            return int(self.system.size(path))

        return self._if_there(size, "can't be read")

    def modified_s(self, name: str) -> float | None:
        """When it was written, since 1970, by the clock of what has the files; None if there is no such file."""
        path = self.path(name)

        def modified_s() -> float:
            self.system.invalidate_cache()
            return self.system.modified(path).timestamp()

        return self._if_there(modified_s, "can't be read")

    def names(self, folder: str) -> list[str]:
        """Of all files below it, sorted; those that are being written are not among them."""
        path = self.path(folder)

        def names() -> list[str]:
            self.system.invalidate_cache()
            return sorted(_below(path)) if self._local else sorted(self.system.find(path))

        found = [name.removeprefix(f"{self._root}/") for name in self._patiently(names, "can't be listed")]
        return [name for name in found if NAME.match(name) and not name.endswith(".partial")]

    def is_empty(self, but: str) -> bool:
        """Is there nothing at all at the URL, but for files whose names begin so?"""

        def is_empty() -> bool:
            try:
                found = self.system.ls(self._root, detail=False)
            except FileNotFoundError:
                return True
            return all(name.rstrip("/").rpartition("/")[2].startswith(but) for name in found)

        return self._patiently(is_empty, "can't be read")

    def move(self, name: str, to: str) -> None:
        """Renames a file, if it is there: another may have done so."""
        source, target = self.path(name), self.path(to)

        def move() -> None:
            if self._local:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                self.system.mv(source, target)

        self._patiently(move, "can't be written")

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        self._if_there(lambda: self.system.rm_file(self.path(name)), "can't be written")

    def _if_there(self, work: Callable[[], T], what: str) -> T | None:
        """What it gives; None if there is no such file."""

        def work_or_none() -> T | None:
            try:
                return work()
            except FileNotFoundError:
                return None

        return self._patiently(work_or_none, what)

    def _patiently(self, work: Callable[[], T], what: str) -> T:
        return self.patience.wait_for(work, f"{self.url}: {what}", _is_of_storage, StoreError)


def located(url: str, problem: str = "") -> "tuple[AbstractFileSystem, str]":
    """What has the files of an URL or path, and their path there. `problem`: what an error is called. Raises
    HeaptapeError where there is none, and where the URL has a password or key in it.
    """
    if "://" in url and SECRET.search(url):
        kind = url.partition("://")[0]
        raise HeaptapeError(
            f"{kind}://...: {problem}a password or key in an URL would be told to everybody: give it by the "
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
    """Of the disk, the network or the service, not a mistake of ours: their clients raise errors of their own."""
    ours = (HeaptapeError, TypeError, AttributeError, NameError, LookupError, AssertionError)
    return isinstance(error, OSError) or not isinstance(error, (*ours, ValueError))


def _copy_whole(source: Path, target: Path) -> None:
    """A file that need not fit into memory."""
    with source.open("rb") as original, whole_file(target, durable=True) as copy:
        shutil.copyfileobj(original, copy, COPIED_BYTES)


def _create_whole(target: Path, data: bytes) -> None:
    """Raises FileExistsError."""
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
