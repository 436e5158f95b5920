# SPDX-License-Identifier: MIT
"""Unpacks untrusted archives: nothing outside the folder, and only a bounded amount. Without tarfile's filters, as
these came with Python 3.11.4 and Debian 12 has 3.11.2.
"""

import shutil
import tarfile
import zlib
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO

from heaptape.common.errors import HeaptapeError

# LLVM's runtime package is the largest of the known sources: about 100 MB, 1,000 files.
MOST_BYTES = 2 << 30
MOST_FILES = 100_000


def unpack(name: str, archive: IO[bytes], into: Path) -> None:
    """Unpacks a tar archive, compressed or not, from a stream. `name`: for errors. Links that lead out of the folder
    and devices are left out. Raises HeaptapeError where it is not a tar archive, has a path that leads out of the
    folder, or is too large.
    """
    root = into.resolve()
    total = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|*") as tar:
            for count, member in enumerate(tar):
                total += member.size
                if total > MOST_BYTES or count >= MOST_FILES:
                    raise HeaptapeError(f"{name}: has more than {MOST_BYTES >> 30} GiB or {MOST_FILES:,} files")
                _extract(name, tar, member, root)
    except (tarfile.TarError, EOFError, LZMAError, zlib.error, ValueError) as error:
        raise HeaptapeError(f"{name}: can't be unpacked: {error}") from None


def _extract(name: str, tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    path = _inside(name, member.name, root)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.isfile() and (data := tar.extractfile(member)):
        path.unlink(missing_ok=True)
        with path.open("xb") as file:
            shutil.copyfileobj(data, file)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    elif member.islnk() and (there := _inside(name, member.linkname, root)).is_file():
        shutil.copyfile(there, path, follow_symlinks=False)
    elif member.issym() and (path.parent / member.linkname).resolve().is_relative_to(root):
        path.unlink(missing_ok=True)
        path.symlink_to(member.linkname)


def _inside(name: str, text: str, root: Path) -> Path:
    """A member's path below the folder, with links followed."""
    pure = PurePosixPath(text)
    if not pure.parts:
        return root
    path = root / pure
    if pure.is_absolute() or ".." in pure.parts or not path.parent.resolve().is_relative_to(root):
        raise HeaptapeError(f"{name}: its path {text!r} leads out of the folder")
    return path


def top(folder: Path) -> Path:
    """The archive's single top folder, or the folder it was unpacked to if there are several entries."""
    found = list(folder.iterdir())
    return found[0] if len(found) == 1 and found[0].is_dir() else folder
