# SPDX-License-Identifier: MIT
"""Packages: complete, the same bytes twice, and usable by users who did not install them.

`make test-packages`, separate from the other tests, because they install from PyPI; the long ones too:
`make test-packages-all`. They test what only a package can lack. `packaging/try_deb` installs the Debian package in a
fresh Debian.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from heaptape.commands.main import COMMANDS, parsers_of_commands
from heaptape.commands.programs import PROGRAMS

from tests.repository.test_documents_run import ELSEWHERE, FOR_USERS, FROM_NETWORK, own, reader, run_all  # noqa: F401
from tests.repository.test_documents_run import commands as commands_of
from tests.support import HEAPTAPE, OUT, REPOSITORY, made_once, run, succeed

sys.path.insert(0, str(REPOSITORY / "packaging" / "reference"))
import commands

pytestmark = pytest.mark.packages

MIB = 1 << 20
GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")
DEBIAN_12 = (
    "jinja2==3.1.2", "matplotlib==3.6.3", "numpy==1.24.2", "pandas==1.5.3", "pillow==9.4.0", "pyparsing==3.0.9",
    "python-dateutil==2.8.2", "rich==13.3.1", "scipy==1.10.1", "zstandard==0.20.0",
)  # fmt: skip
EMULATION_IMPOSSIBLE = 77  # tools/emulate
FEWER = {"wheel-allocators": ("WHEEL_ALLOCATORS=mimalloc jemalloc",)}  # Google's tcmalloc takes minutes
PROGRAM = ("/bin/sh", "-c", "echo $((6 * 7))")
Packages = Callable[[str], tuple[Path, bool]]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter, unlike tmp_path."""
    with tempfile.TemporaryDirectory(prefix="heaptape-packages.") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def make(target: str, *settings: str) -> None:
    """Runs make without the settings of the make that may have started the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment["SOURCE_DATE_EPOCH"] = "1700000000"
    command = ["make", "--no-print-directory", "-C", str(REPOSITORY), f"OUT={OUT}", target, *settings]
    with (OUT / ".packages-of-tests").open("w") as lock:  # all workers of the run build in one folder
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True, env=environment, umask=0o077)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def only_package(target: str) -> Path:
    (package,) = (path for path in (OUT / target).iterdir() if path.suffix in (".whl", ".deb"))
    return package


def digests(package: Path, of_allocators: bool) -> dict[str, str]:
    """The package's; or those of the files of each allocator in it."""
    if not of_allocators:
        return {"": hashlib.sha256(package.read_bytes()).hexdigest()}
    with zipfile.ZipFile(package) as archive:
        found = {one: hashlib.sha256(archive.read(one)).hexdigest() for one in archive.namelist() if "@" in one}
    assert found
    return found


@pytest.fixture
def made_twice(tmp_path_factory) -> Packages:
    """Makes a package, once for all tests of the run; and whether a make before, after which a source looks new, made
    the same bytes. Of allocators that one makes those of `FEWER`.
    """

    def make_it(target: str, told: Path) -> None:
        source = REPOSITORY / "replay" / "main.c"
        before = source.stat()
        make(target, *FEWER.get(target, ()))
        earlier = digests(only_package(target), target in FEWER)
        source.touch()
        make(target)
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))  # programs that others run are not linked again
        package = only_package(target)
        told.write_text(json.dumps([str(package), earlier.items() <= digests(package, target in FEWER).items()]))

    def made(target: str) -> tuple[Path, bool]:
        package, same = json.loads(made_once(tmp_path_factory, target, partial(make_it, target)).read_text())
        return Path(package), same

    return made


def as_other(folder: Path, *command: str | Path) -> str:
    """The output of a command run by a user who is neither root nor the installer, in a folder of theirs."""
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
    """The wheel has the pytest plugin, here with the oldest pytest of docs/use/PYTEST.md. No option is needed."""
    subprocess.run([programs / "pip", "-q", "install", "pytest==8.0.*"], check=True, umask=0o022)
    test = folder / "user" / "test_it.py"
    test.write_text("def test_it():\n    assert bytearray(7_000_000)\n")
    output = as_other(folder, programs / "pytest", "-p", "no:cacheprovider", "--heaptape", "test_it.py")
    assert re.search(r"6\.68 MiB +\S+ \w+ +\d+  test_it.py::test_it", output)


def needed_glibc(path: Path) -> tuple[int, int]:
    """The newest symbol version of a file; (0, 0): none."""
    listed = run("objdump", "-T", path).stdout
    return max(((int(a), int(b)) for a, b in GLIBC.findall(listed)), default=(0, 0))


def test_a_wheel_is_whole_and_the_same_twice(folder: Path, made_twice: Packages) -> None:
    wheel, same = made_twice("wheel")
    assert same
    assert wheel.stat().st_size <= 15 * MIB
    python = run(REPOSITORY / "packaging" / "public_python").stdout.strip()
    succeed(python, "-m", "venv", folder / "venv")
    subprocess.run([folder / "venv/bin/pip", "-q", "install", wheel], check=True, umask=0o022)
    heaptape = folder / "venv" / "bin" / "heaptape"
    records(folder, heaptape)
    as_other(folder, heaptape, "demo", "-o", folder / "user" / "demo")
    assert (folder / "user" / "demo" / "demo.html").stat().st_size > 100_000
    output = as_other(folder, heaptape, "workloads")
    assert "larson" in output
    assert "sqlite3" in output
    assert "reference" in as_other(folder, heaptape, "allocators")
    assert "SYNOPSIS" in as_other(folder, "man", "-M", folder / "venv/share/man", "heaptape-record")
    measures_tests(folder, folder / "venv/bin")
    sbom = folder.glob("venv/lib/python3*/site-packages/heaptape/prefix/share/heaptape/sbom.cdx.json")
    assert '"libzstd1"' in next(sbom).read_text()


@pytest.mark.parametrize(
    ("target", "least"), [("wheel", 20), pytest.param("wheel-allocators", 3, marks=pytest.mark.long)]
)
def test_a_wheels_tag_is_true(target: str, least: int, folder: Path, made_twice: Packages) -> None:
    """No file in it needs a newer C library than its name states, nor than 2.28, whoever made it."""
    wheel, _ = made_twice(target)
    promised = re.search(r"manylinux_(\d+)_(\d+)_x86_64", wheel.name)
    assert promised
    assert (int(promised[1]), int(promised[2])) <= (2, 28)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) >= least
    assert max(map(needed_glibc, files)) <= (int(promised[1]), int(promised[2]))


@pytest.mark.long
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("debootstrap"), reason="systems are made as root, by debootstrap"
)
def test_a_wheel_works_on_other_systems_with_the_same_counts(made_twice: Packages) -> None:
    """Two of docs/PLATFORMS.md; `packaging/matrix` tries the others, too."""
    mirror = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
    if run("curl", "-sfIm", "20", f"{mirror}/dists/trixie/Release").status != 0:
        pytest.skip(f"{mirror} can't be reached")
    (wheel, _), (allocators, same), (deb, _) = map(made_twice, ("wheel", "wheel-allocators", "deb"))
    assert same
    rows = ("bookworm", f"bookworm:{deb}", "trixie")
    succeed(REPOSITORY / "packaging" / "matrix", wheel, allocators, *rows, timeout_s=7200)


@pytest.mark.long
@pytest.mark.skipif(
    not (OUT / "aarch64/.complete").exists(), reason="make setup-aarch64 brings the cross compiler and the emulator"
)
def test_a_wheel_for_aarch64_records_replays_and_reports_under_emulation(folder: Path) -> None:
    """By Debian 12's Python for that processor, with PyPI's packages for it, as pip selects them by their tags."""
    make("wheel", "CROSS=aarch64")
    cross, tape, results, report = OUT / "aarch64", folder / "a.tape", folder / "r.json", folder / "r.html"
    (wheel,) = (cross / "wheel").glob("*_aarch64.whl")
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (31, 28, 27, 17)]
    python = ("--only-binary=:all:", "--python-version=3.11", *platforms)
    succeed(sys.executable, "-m", "pip", "-q", "install", "--target", folder / "site", *python, wheel, timeout_s=900)
    programs = cross / "root/usr/bin"
    emulated = (REPOSITORY / "tools/emulate", "aarch64", cross, "env", f"PYTHONPATH={folder / 'site'}")
    heaptape = (*emulated, programs / "python3", "-m", "heaptape")
    if run(*heaptape, "--version").status == EMULATION_IMPOSSIBLE:
        pytest.skip("this kernel has no binfmt_misc in user namespaces (Linux 6.7 and newer have)")
    succeed(*heaptape, "record", "-o", tape, "--", programs / "sqlite3", ":memory:", "select 1", timeout_s=900)
    assert '"arch": "aarch64"' in succeed(*heaptape, "info", "--json", tape, timeout_s=900).stdout
    allocators = ("-a", "reference", "-a", "magazine", "-a", "bucket")
    replay = (*heaptape, "replay", tape, "-n", "1", "--passes", "memory,verify", *allocators, "-o", results)
    assert "magazine" in succeed(*replay, timeout_s=900).stdout
    succeed(*heaptape, "report", results, "-o", report, timeout_s=900)
    assert report.stat().st_size > 100_000


def test_a_debian_package_is_clean_and_the_same_twice(folder: Path, made_twice: Packages) -> None:
    """`make deb` fails where lintian warns."""
    package, same = made_twice("deb")
    assert same
    subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True, umask=0o022)
    folder.joinpath("root").chmod(0o755)
    records(folder, folder / "root/usr/bin/heaptape")
    assert "heaptape" in as_other(folder, folder / "root/usr/bin/heaptape", "--version")
    depends = succeed("dpkg-deb", "-f", package, "Depends").stdout
    assert {"python3-numpy", "libjansson4"} <= {word.split()[0] for word in depends.split(", ")}
    assert (folder / "root/usr/share/bash-completion/completions/heaptape").is_file()
    assert (folder / "root/usr/share/man/man1/heaptape-replay.1.gz").is_file()
    shutil.copytree(OUT / "deb/heaptape", folder / "tree")
    with contextlib.chdir(folder / "tree"):  # the folder of the build need not be in the checkout
        succeed("debian/rules", "override_dh_installchangelogs")


@pytest.mark.long
def test_reports_and_tables_are_right_with_debian_12s_libraries(folder: Path) -> None:
    """The versions that the Debian package depends on, from PyPI."""
    succeed("/usr/bin/python3", "-m", "venv", folder / "venv")
    tools = ("msgspec", "pytest>=8", "hypothesis", "jsonschema", "optuna>=5")
    subprocess.run([folder / "venv/bin/pip", "-q", "install", *DEBIAN_12, *tools], check=True)
    tests = [f"analysis/test/{part}" for part in ("results", "show")]
    command = (folder / "venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider", "-m", "not long", *tests)
    subprocess.run(command, check=True, cwd=REPOSITORY)


@pytest.fixture(scope="module")
def uv(tmp_path_factory) -> Path:
    """uv of the machine, or of PyPI."""
    if not shutil.which("uv"):
        folder = tmp_path_factory.mktemp("uv")
        succeed(sys.executable, "-m", "venv", folder)
        succeed(folder / "bin/pip", "-q", "install", "uv")
        return folder / "bin/uv"
    return Path(shutil.which("uv") or "")


@pytest.fixture(scope="module")
def figures(tmp_path_factory) -> Path:
    """Results of every pass that a recording without accesses has."""
    passes = "time,bare,memory,instructions,blame,contention,sharing,verify"
    allocators = ("-a", "glibc", "-a", "reference", "-a", "magazine")
    tape = REPOSITORY / "workloads/corpus/postgres.tape"

    def replay(results: Path) -> None:
        succeed(HEAPTAPE, "replay", tape, "-n", "2", *allocators, "--passes", passes, "-o", results, timeout_s=900)

    return made_once(tmp_path_factory, "r.json", replay)


def python_of(version: str) -> str | None:
    """An interpreter of that version: of the system, or of pyenv."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return shutil.which(f"python{version}", path="/usr/bin:/usr/local/bin") or (str(pyenv[-1]) if pyenv else None)


@pytest.mark.parametrize(
    ("version", "beside"),
    [
        ("3.11", "--resolution=lowest-direct"),
        ("3.13", ""),
        pytest.param("3.10", "--resolution=lowest-direct", marks=pytest.mark.long),
        *(pytest.param(f"3.{n}", "", marks=pytest.mark.long) for n in (10, 11, 12, 14)),
        # between: of a numpy that they were compiled for
        pytest.param("3.11", "pandas==2.0.3 numpy<2", marks=pytest.mark.long),
        pytest.param("3.12", "pandas==2.1.4 numpy<2", marks=pytest.mark.long),
    ],
)
def test_a_wheel_beside_the_oldest_and_the_newest_libraries_runs_the_tutorial_and_prints_the_same(
    version, beside, uv, figures, folder, made_twice
):
    """The versions of the metadata's lower bounds, and today's; every table in every format, in several locales."""
    python = python_of(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    succeed(uv, "venv", "-q", "--python", python, folder / "venv")
    install = ("pip", "install", "-q", "--python", folder / "venv/bin/python", "--only-binary", ":all:")
    succeed(uv, *install, *beside.split(), made_twice("wheel")[0], timeout_s=900)
    assert run_all(folder, list(commands_of(REPOSITORY / "docs/TUTORIAL.md")), folder / "venv/bin") == []
    assert texts(folder / "venv/bin/heaptape", figures, folder) == texts(HEAPTAPE, figures, folder)


def texts(heaptape: Path, results: Path, folder: Path) -> dict[tuple[str, ...], str]:
    """What is read in tables, report and picture of these results."""
    forms = [("text", "C.UTF-8"), ("text", "C"), ("text", "tr_TR.UTF-8"), ("md", "C.UTF-8"), ("latex", "C")]
    table = (heaptape, "compare", results, "--table", "all", "--format")
    made = {key: succeed(*table, key[0], env={"LC_ALL": key[1], "COLUMNS": "100"}).stdout for key in forms}
    page = succeed(heaptape, "report", results, "-o", "-").stdout
    made[("report",)] = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    succeed(heaptape, "plot", results, "-o", folder / "picture.svg")
    width = re.search(r'<svg [^>]*width="[^"]*"', (folder / "picture.svg").read_text())
    return made | {("width",): width[0] if width else ""}


def test_another_figure_is_another_text(figures: Path, folder: Path) -> None:
    """Each of these texts has the peak RSS."""
    data = json.loads(figures.read_text())
    for one in data["runs"]:
        one |= {name: value * 3 // 2 for name, value in one.items() if name == "rss_anon_peak_bytes"}
    (folder / figures.name).write_text(json.dumps(data))
    before, after = (texts(HEAPTAPE, path, folder) for path in (figures, folder / figures.name))
    assert [key for key in before if before[key] == after[key]] == [("width",)]


@pytest.mark.long
def test_the_commands_of_documents_that_use_the_network_succeed(reader: Path) -> None:  # noqa: F811
    starts = tuple(start for start, where in ELSEWHERE.items() if where == FROM_NETWORK)
    commands = [one for document in FOR_USERS for one in commands_of(document) if one.startswith(starts)]
    assert len(commands) >= len(starts)
    assert run_all(reader, commands) == []


def test_what_root_installs_every_user_can_use(folder: Path) -> None:
    """Made with a umask that gives other users no rights."""
    make("install", f"DESTDIR={folder}/stage", f"PREFIX={folder}/prefix")
    files = folder / "stage"
    assert run("grep", "-rlF", "-e", files, "-e", REPOSITORY, files).stdout == ""
    assert not [path for path in files.rglob("tests") if path.is_dir()]
    (files / folder.relative_to("/") / "prefix").rename(folder / "prefix")
    folder.joinpath("prefix").chmod(0o755)
    heaptape = folder / "prefix" / "bin" / "heaptape"
    records(folder, heaptape)
    as_other(folder, heaptape, "replay", folder / "user/a.tape", "-n", "1", "-a", "reference", "-o", "r.json")
    assert "larson" in as_other(folder, heaptape, "workloads")


def test_a_package_is_refused_before_it_is_made_where_make_would_take_a_name_apart(tmp_path: Path) -> None:
    checkout = tmp_path / "My Projects"
    checkout.mkdir()
    for path in REPOSITORY.iterdir():
        (checkout / path.name).symlink_to(path)
    for folder, goal in ((checkout, "wheel"), (checkout, "test"), (".", f"install PREFIX={tmp_path}/My\\ Tools")):
        done = run("sh", "-c", f"make -C '{folder}' {goal}", cwd=REPOSITORY)
        assert done.status == 2, done
        assert re.fullmatch(r"Makefile:\d+: \*\*\* A folder's name has a space .*\n", done.stderr), done
    assert run("make", "-nC", checkout, "all").status == 0


BASH = r"""
source "$1"
shift
for words; do
  COMP_WORDS=($words) COMP_CWORD=$(wc -w <<<"$words") COMPREPLY=()
  case $words in *" ") COMP_WORDS+=("") ;; *) COMP_CWORD=$((COMP_CWORD - 1)) ;; esac
  $(complete -p heaptape | sed 's/.*-F \([^ ]*\).*/\1/') heaptape; echo "${COMPREPLY[*]}"
done"""
FISH = r"""
source $argv[1]
for line in $argv[2..-1]; echo (complete -C $line | string split -f 1 \t); end"""


def offered(shell: str, folder: Path, lines: Sequence[str]) -> list[list[str]]:
    """The shell's completions at the end of each line, sorted."""
    share, found = OUT / "share", folder / "found"
    if shell == "bash":
        output = succeed("bash", "-c", BASH, "bash", share / "bash-completion/completions/heaptape", *lines).stdout
    elif shell == "fish":
        file, home = share / "fish/vendor_completions.d/heaptape.fish", {"HOME": str(folder)}
        output = succeed("fish", "--no-config", "-c", FISH, file, *lines, env=home).stdout
    else:
        script = REPOSITORY / "tests" / "programs" / "candidates.zsh"
        succeed("zsh", "-f", script, share / "zsh/site-functions", found, *lines)
        output = found.read_text()
    return [sorted(set(line.split())) for line in output.splitlines()]


def long_options(parser: argparse.ArgumentParser) -> list[str]:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return sorted(name for action in shown for name in action.option_strings if name.startswith("--"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_what_the_commands_define(shell: str, folder: Path) -> None:
    """Every command, every command of a command, and every option of each; values and beginnings of words."""
    make("reference")
    whole = commands.whole_parser(HEAPTAPE)
    expected = {"heaptape ": sorted(parsers_of_commands(whole))}
    for name, parser in parsers_of_commands(whole).items():
        expected[f"heaptape {name} --"] = long_options(parser)
        if name == "fleet":
            expected["heaptape fleet "] = sorted(parsers_of_commands(parser))
            expected |= {f"heaptape fleet {own} --": long_options(p) for own, p in parsers_of_commands(parser).items()}
    expected |= {"heaptape rep": ["replay", "report"], "heaptape record --on-f": ["--on-full"]}
    expected |= {"heaptape record --on-full wa": ["wait"], "heaptape replay --color n": ["never"]}
    assert dict(zip(expected, offered(shell, folder, list(expected)), strict=True)) == expected


def test_every_command_has_a_man_page_without_warnings() -> None:
    make("reference")
    pages = {path.stem: path for path in (OUT / "share" / "man" / "man1").glob("*.1")}
    fleet = parsers_of_commands(commands.whole_parser(HEAPTAPE)).get("fleet")
    inner = [f"fleet-{name}" for name in (parsers_of_commands(fleet) if fleet else ())]
    assert set(pages) == {"heaptape", *(f"heaptape-{name}" for name in (*PROGRAMS, *COMMANDS, *inner, "help"))}
    for page in pages.values():
        done = run("man", "--warnings", "-E", "UTF-8", "-l", page)
        assert (done.status, done.stderr) == (0, ""), page
