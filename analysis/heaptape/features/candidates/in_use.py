# SPDX-License-Identifier: MIT
"""Which allocator a program really uses: of the objects that the linker searches, the first that defines malloc.

The linker lists them itself (`ld.so --list`, which starts nothing), with the program's environment. Libraries that a
program opens later (dlopen) don't replace malloc. A static executable has an allocator of its own, which only its text
can tell.
"""

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.allocators.elf_files import exported_names
from heaptape.allocators.registry import Allocator, package_versions
from heaptape.common.errors import HeaptapeError

PROGRAM_HEADERS = struct.Struct("<4s28xQ14xHH")  # of a 64-bit ELF file: their place, size and number
INTERPRETER = 3
MOST_SCRIPTS = 4  # that start each other


@dataclass(frozen=True)
class InUse:
    """`object`: the file that defines malloc; None: no file that could be read does. `allocator`: its name in the
    registry; empty: none of those. `how`: "library", "linked" (in the executable), "static". `settings`: variables of
    the environment that the allocator reads.
    """

    program: str
    object: Path | None
    allocator: str
    version: str
    how: str
    settings: Mapping[str, str]


def of_process(pid: int, registry: Mapping[str, Allocator]) -> InUse:
    """Of a running process. Raises HeaptapeError if it can't be read."""
    place = Path(f"/proc/{pid}")
    try:
        name = (place / "comm").read_text().strip()
        words = (place / "environ").read_bytes().split(b"\0")
        inodes = {int(line.split(maxsplit=5)[4]) for line in (place / "maps").read_text().splitlines()}
        executable = (place / "exe").resolve()
    except OSError as error:
        raise HeaptapeError(f"process {pid}: {error.strerror}") from None
    # glibc's start-up puts a zero behind each tunable there.
    text = b"\0".join(words).replace(b"\0glibc.", b":glibc.")
    pairs = (os.fsdecode(word).partition("=") for word in text.split(b"\0") if b"=" in word)
    environment = {key: value for key, _, value in pairs}
    root = place / "root"
    listed = _objects(executable, environment, root)
    # By inode, as a file has several paths (/lib is a link to /usr/lib).
    objects = [path for path in listed if (root / path.relative_to("/")).stat().st_ino in inodes]
    return _found(f"{name} ({pid})", [executable, *objects], (registry, environment, root))


def of_command(command: Sequence[str], registry: Mapping[str, Allocator]) -> InUse:
    """Of a program that is not started. Raises HeaptapeError if there is no such program."""
    executable = _executable(command[0])
    root, environment = Path("/"), dict(os.environ)
    objects = [executable, *_objects(executable, environment, root)]
    return _found(Path(command[0]).name, objects, (registry, environment, root))


def _executable(name: str) -> Path:
    """The file that runs: for a script, its interpreter."""
    for _ in range(MOST_SCRIPTS):
        path = shutil.which(name)
        if not path:
            raise HeaptapeError(f"{name}: no such program")
        with Path(path).open("rb") as file:
            first = file.readline(256)
        if not first.startswith(b"#!"):
            return Path(path).resolve()
        words = os.fsdecode(first[2:]).split()
        by_env = len(words) > 1 and Path(words[0]).name == "env"
        name = words[1] if by_env else words[0]
    raise HeaptapeError(f"{name}: a script of a script of a script")


def _objects(executable: Path, environment: Mapping[str, str], root: Path) -> list[Path]:
    """Libraries in the order in which they are searched; none for a static executable."""
    try:
        interpreter = _interpreter((root / executable.relative_to("/")).read_bytes())
    except ValueError:
        raise HeaptapeError(f"{executable}: not an executable of this kind of machine") from None
    if not interpreter:
        return []
    command = [interpreter, "--list", str(executable)]
    if root.resolve() != Path("/"):
        command = ["chroot", str(root), *command]
    done = subprocess.run(command, capture_output=True, errors="replace", env=dict(environment))
    if done.returncode:
        raise HeaptapeError(f"{executable}: {interpreter} can't list its libraries: {done.stderr.strip()}")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)]


def _interpreter(data: bytes) -> str:
    """Path of the dynamic linker that an executable names; empty: it is static. Raises ValueError if it is none."""
    try:
        magic, place, size, count = PROGRAM_HEADERS.unpack_from(data)
        headers = [struct.unpack_from("<I4xQ16xQ", data, place + index * size) for index in range(count)]
    except (struct.error, OverflowError):
        raise ValueError from None
    if magic != b"\x7fELF":
        raise ValueError
    texts = [data[offset : offset + length] for kind, offset, length in headers if kind == INTERPRETER]
    return texts[0].rstrip(b"\0").decode(errors="replace") if texts else ""


def _found(
    program: str, objects: Sequence[Path], where: tuple[Mapping[str, Allocator], Mapping[str, str], Path]
) -> InUse:
    """`objects`: the executable, then the libraries as they are searched."""
    registry, environment, root = where
    files = {path: root / path.relative_to("/") for path in objects}
    defining = next((path for path in objects if "malloc" in exported_names(files[path].read_bytes())), None)
    if defining is None and len(objects) > 1:
        return InUse(program, None, "", "", "library", {})
    path = defining or objects[0]
    known = next((one for one in registry.values() if _is(one, files[path], defining is None)), None)
    how = "static" if len(objects) == 1 else "linked" if path == objects[0] else "library"
    version = package_versions((path,)).get(path, "") if how == "library" else ""
    settings = known.settings_in(environment) if known else {}
    return InUse(program, path, known.name if known else "", version, how, settings)


def _is(allocator: Allocator, file: Path, static: bool) -> bool:
    """`static`: an executable without dynamic symbols, in which only an allocator's texts prove it."""
    if not static:
        return allocator.proof.holds(file)
    texts = allocator.proof.contains
    return bool(texts) and all(text.encode() in file.read_bytes() for text in texts)
