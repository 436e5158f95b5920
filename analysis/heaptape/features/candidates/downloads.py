# SPDX-License-Identifier: MIT
"""Packages of Debian, by apt-get, and wheels of PyPI, by pip, which compare them with their indexes; kept after the
first download.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.process import scratch_folder
from heaptape.run.installed import Source, version_key
from heaptape.run.registry import sha256_of


@dataclass(frozen=True)
class Client:
    """`command`, and PACKAGE, `at` and the release, write a file into the current folder: PACKAGE, `separator`, the
    release, `separator` and more; it ends in `suffix`. `complaint`: how a line that says why it failed begins.
    """

    registry: str
    command: tuple[str, ...]
    at: str
    separator: str
    suffix: str
    complaint: str

    def release_of(self, archive: Path) -> str:
        """Apt writes a colon as %3a."""
        return archive.stem.split(self.separator)[1].replace("%3a", ":")


DEBIAN = Client("debian", ("apt-get", "download"), "=", "_", ".deb", "[EW]:")
PYPI = Client(
    "pypi",
    (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps", "--only-binary=:all:"),
    "==",
    "-",
    ".whl",
    "ERROR:|.*No module",
)


def fetch(client: Client, package: str, release: str, kept: Path) -> tuple[Path, Source]:
    """The package (of `release`, if given), from `kept` if it is there undamaged, else by the client. Raises
    HeaptapeError with the client's last line.
    """
    there = [path for path in _kept_packages(client, package, kept) if release in ("", client.release_of(path))]
    archive = there[0] if there else _download(client, package, release, kept)
    return archive, Source(client.registry, package, client.release_of(archive), sha256_of(archive))


def _kept_packages(client: Client, package: str, kept: Path) -> list[Path]:
    """The undamaged packages, newest first."""
    found = kept.glob(f"{package}{client.separator}*{client.suffix}")
    notes = {path: path.with_suffix(".sha256") for path in found}
    whole = [path for path, note in notes.items() if note.is_file() and note.read_text().strip() == sha256_of(path)]
    return sorted(whole, key=lambda path: version_key(client.release_of(path)), reverse=True)


def _download(client: Client, package: str, release: str, kept: Path) -> Path:
    program = client.command[0]
    if not shutil.which(program):
        raise HeaptapeError(f"{package} is a package of {client.registry}, and there is no {program} here")
    kept.mkdir(parents=True, exist_ok=True)
    with scratch_folder(kept, ".fetching-") as scratch:
        command = [*client.command, f"{package}{client.at}{release}" if release else package]
        done = subprocess.run(command, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        parts = list(scratch.glob(f"*{client.suffix}"))
        if done.returncode != 0 or not parts:
            lines = [line for line in done.stderr.splitlines() if re.match(client.complaint, line)]
            why = lines[-1].partition(":")[2].strip() if lines else f"exit status {done.returncode}"
            update = " (apt-get update?)" if client is DEBIAN else ""
            raise HeaptapeError(f"{Path(program).name} {' '.join(command[1:])}: {why}{update}")
        archive = kept / parts[0].name
        note = archive.with_suffix(".sha256")
        note.unlink(missing_ok=True)
        parts[0].replace(archive)
    note.write_text(f"{sha256_of(archive)}\n")
    return archive
