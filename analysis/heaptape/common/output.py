# SPDX-License-Identifier: MIT
"""A command's output: to standard output, or to a file that appears whole or not at all; and what it reads."""

import argparse
import errno
import json
import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from heaptape.common.console import uncontrolled
from heaptape.common.errors import HeaptapeError, UsageError

if TYPE_CHECKING:
    import pandas as pd

STANDARD_OUTPUT = "-"
FILE_MOST_BYTES = 4 << 30
WRITTEN = ("output", "flame", "graph")  # options of files that commands write


def check_writable(output: str) -> None:
    """Raises HeaptapeError if the file could not be written. To be called before the work."""
    if output == STANDARD_OUTPUT:
        return
    path = _place(Path(output))
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise HeaptapeError(f"{output}: can't be written")


def _place(path: Path) -> Path:
    """Where an output at that path goes: through links and into pipes of this user and of root alone, as by output_open
    of core/base/files.c. Raises HeaptapeError.
    """
    place = path
    for _ in range(40):  # as the kernel
        link = place.is_symlink()
        if (link or place.is_fifo()) and place.lstat().st_uid not in (os.geteuid(), 0):
            raise HeaptapeError(f"{path}: can't be written: a {'link' if link else 'pipe'} of another user")
        if not link:
            return place
        target = place.parent / place.readlink()
        if place.exists() and not os.path.lexists(target):  # /proc/self/fd/1: an open pipe
            return place
        place = target
    raise HeaptapeError(f"{path}: can't be written: {os.strerror(errno.ELOOP)}")


def check_spares_inputs(arguments: argparse.Namespace) -> None:
    """Raises UsageError if a file that the command writes is one that it reads, under whatever name."""
    values = {name: value for name, value in vars(arguments).items() if name not in WRITTEN}
    words = [word for value in values.values() for word in (value if isinstance(value, list) else [value])]
    read = [Path(word) for word in words if isinstance(word, str) and _is_file(word)]
    for output in filter(None, (getattr(arguments, name, None) for name in WRITTEN)):
        if any(_is_file(output) and path.samefile(output) for path in read):
            raise UsageError(f"{arguments.command}: {output} is read, so it can't be the output")


def _is_file(word: str) -> bool:
    return os.path.isfile(word)  # noqa: PTH113 (any word: Path raises for one that is too long)


def write_text(output: str, text: str) -> None:
    """Writes `text` to the file `output`, or to standard output if that is `-`.

    A regular file is written beside its place and renamed: a full disk leaves what was there before. Raises
    HeaptapeError that names the file.
    """
    if output == STANDARD_OUTPUT:
        flush_standard_output(uncontrolled(text))
        return
    write_bytes(output, text.encode(errors="backslashreplace"))


def write_json(output: str, value: object) -> None:
    """Writes JSON for programs, as `write_text`: without white space, which would be most of R.json's bytes."""
    write_text(output, _json(value, separators=(",", ":")) + "\n")


def print_json(value: Mapping, output: str = STANDARD_OUTPUT) -> None:
    """Prints a command's --json output, with the version of its shape (docs/formats/SCHEMAS.md), or writes it to a
    file. Raises HeaptapeError.
    """
    write_text(output, _json({"schema": 1} | dict(value), indent=1) + "\n")


def _json(value: object, **form: Any) -> str:  # noqa: ANN401
    """JSON has no number that is not finite (an end of an interval of one round): null, which is not known."""
    try:
        return json.dumps(value, allow_nan=False, **form)
    except ValueError:
        return json.dumps(_finite(value), **form)


def _finite(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(frame: "pd.DataFrame") -> list[dict]:
    """The frame's rows for JSON. A missing value is null."""
    rows: list[dict] = json.loads(frame.to_json(orient="records", double_precision=15))
    return rows


def write_bytes(output: str, data: bytes) -> None:
    """`write_text` for a file of bytes. `output` must not be standard output."""
    path = _place(Path(output))
    try:
        if path.exists() and not path.is_file():  # a pipe or a device can't be renamed onto
            path.write_bytes(data)
        else:
            replace_whole(path, data)
    except OSError as error:
        raise HeaptapeError(f"{output}: can't be written: {error.strerror or error}") from error


def flush_standard_output(text: str = "") -> None:
    """Writes out what was printed, then `text`. If that fails, raises HeaptapeError and discards the output, so that
    the interpreter does not try again.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise HeaptapeError(f"standard output: can't be written: {error.strerror or error}") from error


def replace_whole(path: Path, data: bytes, durable: bool = False) -> None:
    with whole_file(path, durable) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path, durable: bool = False) -> Iterator[IO[bytes]]:
    """A regular file, written beside its place and renamed when the context ends without an exception. `durable`: it is
    on the disk before it has its name, so that even a crash of the machine leaves no part of it. Raises OSError.
    """
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".partial", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        own = path.exists() and path.stat().st_uid == os.geteuid()
        temporary.chmod(path.stat().st_mode & 0o777 if own else 0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """A path of the same name in a folder beside `path`, for a file or folder to be made there; it is renamed to `path`
    when the context ends well, and gone otherwise. A pipe or a device is given as it is. Raises HeaptapeError that
    names `path`: it can't be written, or is a folder with contents.
    """
    import shutil
    import tempfile

    if path.exists() and not (path.is_file() or path.is_dir()):
        yield _place(path)
        return
    if path.is_dir() and any(path.iterdir()):
        raise HeaptapeError(f"{path}: Not empty")
    folder = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{path.name}.", suffix=".partial", dir=path.parent))
        yield folder / path.name
        (folder / path.name).replace(path)
    except OSError as error:
        raise HeaptapeError(f"{path}: can't be written: {error.strerror or error}") from error
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    """The umask, from /proc: os.umask() would change it for other threads for a moment."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o077


def file_bytes(path: str | Path) -> bytes:
    """What a file or pipe holds. Raises OSError; HeaptapeError for a device, which may have no end, and for more than
    any results are, mostly holes.
    """
    with Path(path).open("rb") as file:
        about = os.fstat(file.fileno())
        if stat.S_ISCHR(about.st_mode) or stat.S_ISBLK(about.st_mode):
            raise HeaptapeError(f"{path}: is a device, not a file")
        if about.st_size > FILE_MOST_BYTES:
            raise HeaptapeError(f"{path}: is larger than {FILE_MOST_BYTES >> 30} GiB")
        return file.read()
