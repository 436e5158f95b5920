# SPDX-License-Identifier: MIT
"""Packages: whole, the same bytes twice, and good for users who did not install them.

`make test-packages`, apart from the long tests, as they install from PyPI. They add what only a package can lack. Where
installed files are found, analysis/test/common/test_home.py tries in a moment. `packaging/try_deb` installs the Debian
package in a fresh Debian.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from heaptape.cli.main import COMMANDS
from heaptape.cli.programs import PROGRAMS

from tests.support import OUT, REPOSITORY, run, succeed

pytestmark = pytest.mark.packages

MIB = 1 << 20
GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")
PROGRAM = ("/bin/sh", "-c", "echo $((6 * 7))")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user can enter, which tmp_path is not."""
    with tempfile.TemporaryDirectory(prefix="heaptape-packages.") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def make(target: str, *settings: str) -> None:
    """Apart from the make that may have started the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment["SOURCE_DATE_EPOCH"] = "1700000000"
    command = ["make", "--no-print-directory", "-C", str(REPOSITORY), f"OUT={OUT}", target, *settings]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, umask=0o077)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def made_twice(target: str, pattern: str) -> Path:
    """The package, of which two makes give the same bytes. The second finds sources that look new."""
    digests = []
    for _ in range(2):
        make(target)
        (package,) = (OUT / target).glob(pattern)
        digests.append(hashlib.sha256(package.read_bytes()).hexdigest())
        (REPOSITORY / "replay" / "driver" / "replay_main.c").touch()
    assert digests[0] == digests[1]
    return package


def as_other(folder: Path, *command: str | Path) -> str:
    """What a user prints who is neither root nor the installer, in a folder of theirs."""
    home = folder / "user"
    home.mkdir(exist_ok=True)
    become: tuple[str, ...] = ()
    if os.geteuid() == 0:
        shutil.chown(home, "nobody")
        become = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    with contextlib.chdir(home):
        return succeed(*become, "env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", *command).stdout


def records(folder: Path, heaptape: Path) -> None:
    """Any user can record with it, and read the recording."""
    tape = folder / "user" / "a.tape"
    assert as_other(folder, heaptape, "record", "-o", tape, "--", *PROGRAM) == "42\n"
    assert "malloc" in as_other(folder, heaptape, "info", tape)


def measures_tests(folder: Path, programs: Path) -> None:
    """The wheel has the plugin of pytest, here the oldest that docs/PYTEST.md names. It needs no option to be found."""
    subprocess.run([programs / "pip", "-q", "install", "pytest==8.0.*"], check=True, umask=0o022)
    test = folder / "user" / "test_it.py"
    test.write_text("def test_it():\n    assert bytearray(7_000_000)\n")
    told = as_other(folder, programs / "pytest", "-p", "no:cacheprovider", "--heaptape", "test_it.py")
    assert re.search(r"6\.7 MiB +\S+ \w+ +\d+  test_it.py::test_it", told)


def needed_glibc(path: Path) -> tuple[int, int]:
    """The newest symbol version of a file; (0, 0): none."""
    listed = run("objdump", "-T", path).stdout
    return max(((int(a), int(b)) for a, b in GLIBC.findall(listed)), default=(0, 0))


def test_a_wheel_is_whole_and_the_same_twice(folder: Path) -> None:
    wheel = made_twice("wheel", "*.whl")
    assert wheel.stat().st_size <= 15 * MIB
    python = run(REPOSITORY / "packaging" / "public_python").stdout.strip()
    succeed(python, "-m", "venv", folder / "venv")
    subprocess.run([folder / "venv/bin/pip", "-q", "install", wheel], check=True, umask=0o022)
    heaptape = folder / "venv" / "bin" / "heaptape"
    records(folder, heaptape)
    as_other(folder, heaptape, "demo", "-o", folder / "user" / "demo")
    assert (folder / "user" / "demo" / "demo.html").stat().st_size > 100_000
    told = as_other(folder, heaptape, "workloads")
    assert "larson" in told
    assert "sqlite3" in told
    assert "reference" in as_other(folder, heaptape, "allocators")
    assert "SYNOPSIS" in as_other(folder, "man", "-M", folder / "venv/share/man", "heaptape-record")
    measures_tests(folder, folder / "venv/bin")
    sbom = folder.glob("venv/lib/python3*/site-packages/heaptape/prefix/share/heaptape/sbom.cdx.json")
    assert '"libzstd1"' in next(sbom).read_text()


def test_a_wheels_tag_is_true(folder: Path) -> None:
    """No file in it needs a newer C library than its name says."""
    make("wheel")
    (wheel,) = (OUT / "wheel").glob("*.whl")
    promised = re.search(r"manylinux_(\d+)_(\d+)_x86_64", wheel.name)
    assert promised
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) > 20
    assert max(map(needed_glibc, files)) <= (int(promised[1]), int(promised[2]))


def test_a_debian_package_is_clean_and_the_same_twice(folder: Path) -> None:
    """`make deb` fails where lintian warns."""
    package = made_twice("deb", "*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True, umask=0o022)
    folder.joinpath("root").chmod(0o755)
    records(folder, folder / "root/usr/bin/heaptape")
    assert "heaptape" in as_other(folder, folder / "root/usr/bin/heaptape", "--version")
    depends = succeed("dpkg-deb", "-f", package, "Depends").stdout
    assert {"python3-numpy", "libjansson4"} <= {word.split()[0] for word in depends.split(", ")}
    assert (folder / "root/usr/share/bash-completion/completions/heaptape").is_file()
    assert (folder / "root/usr/share/man/man1/heaptape-replay.1.gz").is_file()


def test_what_root_installs_every_user_can_use(folder: Path) -> None:
    """Made with a umask that leaves others nothing."""
    make("install", f"PREFIX={folder}/prefix")
    folder.joinpath("prefix").chmod(0o755)
    heaptape = folder / "prefix" / "bin" / "heaptape"
    records(folder, heaptape)
    as_other(folder, heaptape, "replay", folder / "user/a.tape", "-n", "1", "-a", "reference", "-o", "r.json")
    assert "larson" in as_other(folder, heaptape, "workloads")


def test_completions_know_commands_options_and_values() -> None:
    make("reference")
    script = """
    source "$1"
    for words in "heaptape rep" "heaptape record --on-f" "heaptape replay --touc" "heaptape record --on-full wa"; do
      COMP_WORDS=($words) COMP_CWORD=$(( $(wc -w <<<"$words") - 1 )) COMPREPLY=()
      $(complete -p heaptape | sed 's/.*-F \\([^ ]*\\).*/\\1/') heaptape; echo "${COMPREPLY[*]}"
    done"""
    file = OUT / "share" / "bash-completion" / "completions" / "heaptape"
    told = succeed("bash", "-c", script, "bash", file).stdout.splitlines()
    assert [line.split() for line in told] == [["replay", "report"], ["--on-full"], ["--touch"], ["wait"]]


def test_every_command_has_a_man_page_without_warnings() -> None:
    make("reference")
    pages = {path.stem: path for path in (OUT / "share" / "man" / "man1").glob("*.1")}
    assert set(pages) == {"heaptape", *(f"heaptape-{name}" for name in (*PROGRAMS, *COMMANDS, "help"))}
    for page in pages.values():
        done = run("man", "--warnings", "-E", "UTF-8", "-l", page)
        assert (done.status, done.stderr) == (0, ""), page
