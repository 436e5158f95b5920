# SPDX-License-Identifier: MIT
"""Packages of Debian, by apt-get, which compares them with the signed index; kept after the first download."""

import re
import shutil
import subprocess
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.process import scratch_folder
from heaptape.run.installed import Source, version_key
from heaptape.run.registry import sha256_of


def fetch(package: str, release: str, kept: Path) -> tuple[Path, Source]:
    """The package (of `release`, if given), from `kept` if it is there undamaged, else by `apt-get download`. Raises
    HeaptapeError with the last line of apt-get.
    """
    archive = next((path for path in _kept_packages(package, kept) if not release or _release(path) == release), None)
    if archive is None:
        archive = _download(package, release, kept)
    return archive, Source("debian", package, _release(archive), sha256_of(archive))


def _kept_packages(package: str, kept: Path) -> list[Path]:
    """The undamaged packages, newest first."""
    found = sorted(kept.glob(f"{package}_*.deb"), key=lambda path: version_key(_release(path)), reverse=True)
    notes = {path: path.with_suffix(".sha256") for path in found}
    return [path for path in found if notes[path].is_file() and notes[path].read_text().strip() == sha256_of(path)]


def _release(archive: Path) -> str:
    """The release from a name PACKAGE_RELEASE_ARCHITECTURE.deb, in which apt writes a colon as %3a."""
    return archive.stem.split("_")[1].replace("%3a", ":")


def _download(package: str, release: str, kept: Path) -> Path:
    if not shutil.which("apt-get"):
        raise HeaptapeError(f"{package} is a package of Debian, and there is no apt-get here")
    kept.mkdir(parents=True, exist_ok=True)
    with scratch_folder(kept, ".fetching-") as scratch:
        wanted = f"{package}={release}" if release else package
        done = subprocess.run(
            ["apt-get", "download", wanted], cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        parts = list(scratch.glob("*.deb"))
        if done.returncode != 0 or not parts:
            lines = [line for line in done.stderr.splitlines() if re.match("[EW]:", line)]
            why = lines[-1][2:].strip() if lines else f"exit status {done.returncode}"
            raise HeaptapeError(f"apt-get download {wanted}: {why} (apt-get update?)")
        archive = kept / parts[0].name
        note = archive.with_suffix(".sha256")
        note.unlink(missing_ok=True)
        parts[0].replace(archive)
    note.write_text(f"{sha256_of(archive)}\n")
    return archive
