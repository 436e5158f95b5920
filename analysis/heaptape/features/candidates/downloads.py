# SPDX-License-Identifier: MIT
"""Packages of Debian, by apt-get, and wheels of PyPI, by pip, which compare them with their indexes; kept after the
first download.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from heaptape.allocators.installed import Source, matches, version_key
from heaptape.allocators.registry import sha256_of
from heaptape.common.errors import HeaptapeError
from heaptape.common.process import scratch_folder


@dataclass(frozen=True)
class Client:
    """`command`, and PACKAGE, `at` and the release, write a file into the current folder: PACKAGE, `separator`, the
    release, `separator` and more; it ends in `suffix`. `complaint`: how a line that says why it failed begins.
    `options`: of each command, not part of messages.
    """

    registry: str
    command: tuple[str, ...]
    at: str
    separator: str
    suffix: str
    complaint: str
    options: tuple[str, ...] = ()

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


# Of a release of Debian that need not be this system's.
MIRROR, KEYRING = "http://deb.debian.org/debian", Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def fetch_of_suite(package: str, suite: str, series: str, kept: Path) -> tuple[Path, Source]:
    """The package of that release of Debian, from `kept` if it is there undamaged, else by apt-get with lists of its
    own, which checks their signature by Debian's keys. `series`: the upstream version that it has to be; empty: any.
    Raises HeaptapeError.
    """
    there = [path for path in _kept_packages(DEBIAN, package, kept) if series and _is_of(path, series)]
    archive = there[0] if there else _of_suite(package, suite, kept)
    release = DEBIAN.release_of(archive)
    if series and not _is_of(archive, series):
        raise HeaptapeError(f"Debian's {suite} has {package} {release} now, and not {series}")
    return archive, Source(DEBIAN.registry, package, release, sha256_of(archive), suite)


def _is_of(archive: Path, series: str) -> bool:
    upstream = re.sub("^[0-9]+:", "", DEBIAN.release_of(archive)).partition("-")[0]
    return matches(upstream, series)


def _of_suite(package: str, suite: str, kept: Path) -> Path:
    if not KEYRING.is_file():
        raise HeaptapeError(f"{package} of Debian's {suite}: needs {KEYRING}: apt-get install debian-archive-keyring")
    with scratch_folder() as state:
        for folder in ("lists", "cache"):
            (state / folder / "partial").mkdir(parents=True)
        (state / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n")
        settings = {
            "Dir::State::lists": state / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": state / "cache",
            "Dir::Etc::SourceList": state / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::Languages": "none",
            "APT::Get::AllowUnauthenticated": "false",
            "APT::Sandbox::User": "root",
            "APT::Update::Error-Mode": "any",
        }
        options = tuple(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))
        _called(replace(DEBIAN, command=("apt-get", "update"), options=options), (), state)
        return _download(replace(DEBIAN, options=options), package, "", kept)


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
        wanted = f"{package}{client.at}{release}" if release else package
        _called(client, (wanted,), scratch)
        parts = list(scratch.glob(f"*{client.suffix}"))
        if not parts:
            raise HeaptapeError(f"{wanted}: {Path(program).name} wrote no file")
        archive = kept / parts[0].name
        note = archive.with_suffix(".sha256")
        note.unlink(missing_ok=True)
        parts[0].replace(archive)
    note.write_text(f"{sha256_of(archive)}\n")
    return archive


def _called(client: Client, words: tuple[str, ...], folder: Path) -> None:
    """Runs the client's command there. Raises HeaptapeError with the last line of its complaint."""
    program, *rest = client.command
    command = [program, *client.options, *rest, *words]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, errors="replace")
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if re.match(client.complaint, line)]
        why = lines[-1].partition(":")[2].strip() if lines else f"exit status {done.returncode}"
        update = " (apt-get update?)" if client is DEBIAN else ""
        raise HeaptapeError(f"{Path(program).name} {' '.join((*rest, *words))}: {why}{update}")
