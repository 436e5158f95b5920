# SPDX-License-Identifier: MIT
"""The files of a store, by name within it: a folder, or any URL that fsspec knows (docs/use/FLEET.md).

Files appear whole: in a folder they are written beside their place, flushed to the disk and renamed; an object store
takes them in one request. No process holds a lock: two writers of a name write equally good content.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import replace_whole, whole_file
from heaptape.common.process import outlive_peers

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

MISSING = "fleet needs more packages: pip install 'heaptape[fleet]'"
# Names in a store. Neither `..` nor a leading dot, so that none leads out of it.
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*){0,3}\Z")
# Such secrets would appear in every message, and be sent to every worker.
SECRET = re.compile(r"//[^/@]*:[^/@]*@|[?&][^=&]*(key|password|secret|sig|signature|token)=", re.IGNORECASE)


class StoreError(HeaptapeError):
    """The store can't be read or written."""


class Files:
    """The files below a URL or path. Methods raise StoreError, and HeaptapeError for a name that a store can't have."""

    def __init__(self, url: str) -> None:
        """Raises HeaptapeError where there is no such file system, and where the URL contains a password or key."""
        self.url = url
        self._system, root = _located(url)
        self._root = root.rstrip("/") or "/"
        protocol = self._system.protocol
        self._local = "file" in ([protocol] if isinstance(protocol, str) else protocol)

    def path(self, name: str) -> str:
        """The name's path in the file system."""
        if not NAME.match(name):
            raise HeaptapeError(f"{self.url}: '{name[:80]}' is not a name in a store")
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        """The file's content; None if there is no such file."""
        path = self.path(name)
        return self._done(lambda: Path(path).read_bytes() if self._local else self._system.cat_file(path))

    def write(self, name: str, data: bytes) -> None:
        path = self.path(name)

        def write() -> None:
            if self._local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                replace_whole(Path(path), data, durable=True)
            else:
                self._system.pipe_file(path, data)

        self._done(write)

    def upload(self, source: Path, name: str) -> None:
        """Copies a file of this machine, which may be larger than memory, unless one of that size is there."""
        path = self.path(name)

        def put() -> None:
            if not self._local:
                self._system.put_file(str(source), path)
                return
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as original, whole_file(Path(path), durable=True) as copy:
                shutil.copyfileobj(original, copy, 1 << 20)

        if self.size(name) != source.stat().st_size:
            self._done(put)

    def download(self, name: str, target: Path) -> bool:
        """Copies a file to this machine; False if there is none of that name. Raises OSError if the target can't be
        written.
        """
        path = self.path(name)
        stream = self._done(lambda: self._system.open(path, "rb"))
        if stream is None:
            return False
        with stream, target.open("wb") as file:
            while chunk := self._done(lambda: stream.read(1 << 20)):
                file.write(chunk)
        return True

    def size(self, name: str) -> int | None:
        """Size in bytes; None if there is no such file."""
        path = self.path(name)
        self._system.invalidate_cache()
        return self._done(lambda: int(self._system.size(path)))

    def names(self, folder: str) -> list[str]:
        """Names of all files below `folder`, sorted; without files that are being written."""
        path = self.path(folder)
        self._system.invalidate_cache()
        found = self._done(lambda: sorted(self._system.find(path))) or []
        names = [name.removeprefix(f"{self._root}/") for name in found]
        return [name for name in names if NAME.match(name) and not name.endswith(".partial")]

    def is_empty(self) -> bool:
        return not self._done(lambda: self._system.ls(self._root, detail=False))

    def move(self, name: str, to: str) -> None:
        """Renames a file, if it is there: another process may have renamed it."""
        source, target = self.path(name), self.path(to)
        if self._local:
            self._done(lambda: Path(target).parent.mkdir(parents=True, exist_ok=True))
        self._done(lambda: self._system.mv(source, target))

    def _done(self, work: Callable[[], T]) -> T | None:
        """The result of `work`; None if there is no such file."""
        try:
            return work()
        except FileNotFoundError:
            return None
        except Exception as error:  # clients of object stores have errors of their own
            if isinstance(error, (HeaptapeError, TypeError, AttributeError, NameError, LookupError)):
                raise
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StoreError(f"{self.url}: {why}") from error


def _located(url: str) -> "tuple[AbstractFileSystem, str]":
    if not url.isprintable():
        raise HeaptapeError(f"{url!r}: no store")
    if "://" in url and SECRET.search(url):
        kind = url.partition("://")[0]
        raise HeaptapeError(
            f"{kind}://...: no store: a password or key in a URL would be shown to everybody: give it by the "
            "environment (AWS_SECRET_ACCESS_KEY and the like) or in fsspec's own configuration"
        )
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise HeaptapeError(MISSING) from None
    try:
        found = url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        raise HeaptapeError(f"{url}: no store: {error}") from None
    outlive_peers()
    return found
