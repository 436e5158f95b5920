# SPDX-License-Identifier: MIT
"""Bisections of a small allocator's repository: twenty revisions, each planted regression is found at its revision.

Long: more regressions.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import HEAPTAPE, call_heaptape, import_text, published

SOURCE = (Path(__file__).parent / "small_allocator.c").read_text()
REVISIONS = 20
BUILD = "cc -O1 -fno-builtin -shared -fPIC -o small.so small_allocator.c"
# revision -> (replaced text, new text), from that revision on
PLANTED = {
    7: ("#define GRAIN ((size_t)16)", "#define GRAIN ((size_t)512)"),
    11: ("#define SPINS 0", "#define SPINS 300"),
    15: ("#define CHUNK ((size_t)1 << 20)", "#define CHUNK ((size_t)1 << 13)"),
    17: ("#define OFFSET ((size_t)0)", "#define OFFSET ((size_t)8)"),
}
CONDITIONS = {7: "rss-peak>1.5*good", 11: "instructions > 150%*good", 15: "syscalls>=10*good", 17: "broken"}
DOES_NOT_BUILD = 9
NO_MALLOC = 13
LATER = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}


def git(folder: Path, *arguments: str, **dates: str) -> str:
    surroundings = {**os.environ, **LATER, **dates, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, env=surroundings, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, number: int) -> str:
    text = SOURCE + f"/* revision {number} */\n"
    for since, (old, new) in PLANTED.items():
        assert old in text
        text = text.replace(old, new) if number >= since else text
    if number == DOES_NOT_BUILD:
        text += "this is no C\n"
    if number == NO_MALLOC:
        text = f"int nothing_{number};\n"
    (folder / "small_allocator.c").write_text(text)
    git(folder, "add", "small_allocator.c")
    date = f"2026-01-{number:02} 12:00:00 +0000"
    git(folder, "commit", "-q", "-m", f"revision {number}", GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The folder, and the revisions' names by number."""
    folder = tmp_path_factory.mktemp("repository") / "small"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder, {number: commit(folder, number) for number in range(1, REVISIONS + 1)}


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    """4,000 objects, every fourth of which is freed."""
    lines = []
    for i in range(4000):
        lines.append(f"{2 * i} 1 malloc({24 + i % 80}) = {0x10000 + 1024 * i:#x}")
        if i % 4 == 0:
            lines.append(f"{2 * i + 1} 1 free({0x10000 + 1024 * i:#x})")
    return import_text(tmp_path_factory.mktemp("tape"), "\n".join(lines) + "\n", "clock=nanoseconds")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for all tests: revisions that several bisections try are built once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def arguments(repository, tape, cache):
    """Arguments of `heaptape bisect` over all revisions, with a condition; `options` replace them."""

    def made(condition, **options):
        folder, revisions = repository
        given = {
            "repo": folder,
            "good": revisions[1],
            "bad": revisions[REVISIONS],
            "build": BUILD,
            "lib": "small.so",
            "if": condition,
            "cache": cache,
        } | options
        return ["bisect", tape, *(str(word) for name, value in given.items() for word in (f"--{name}", value))]

    return made


@pytest.mark.parametrize("planted", [7, 17, *(pytest.param(one, marks=pytest.mark.long) for one in (11, 15))])
def test_a_planted_regression_is_found_at_its_revision(planted, arguments, repository, tmp_path):
    output = tmp_path / "b.json"
    done = call_heaptape(*arguments(CONDITIONS[planted]), "-o", output)
    assert done.status == 0, done.stderr
    found = published("bisect", output.read_text())
    _, revisions = repository
    assert found["first_bad"] == [revisions[planted]]
    assert f"revision {planted}\n" in done.stdout.splitlines()[0] + "\n"
    assert "2026-01-" in done.stdout
    assert re.search(
        r"^Next: heaptape minimise .* --old \S+small.so --new \S+small.so --if ", done.stdout, re.MULTILINE
    )
    # Log2 of 19 candidates, and the skipped ones.
    assert len(found["tried"]) <= 5 + len([one for one in found["tried"] if one["verdict"] == "skip"])


def test_the_users_checkout_is_not_touched(arguments, repository):
    folder, revisions = repository

    def state():
        refs = git(folder, "for-each-ref")
        return git(folder, "rev-parse", "HEAD"), refs, git(folder, "status", "--porcelain"), sorted(folder.iterdir())

    before = state()
    assert call_heaptape(*arguments("rss-peak>1.5*good")).status == 0
    assert state() == before
    assert not list((folder / ".git").glob("BISECT*"))


def test_revisions_that_can_not_be_tried_are_skipped_and_reported(arguments, repository):
    _, revisions = repository
    ends = {"good": revisions[7], "bad": revisions[11]}
    done = call_heaptape(*arguments("instructions>1.5*good", **ends))
    assert done.status == 0, done.stderr
    assert "revision 11" in done.stdout.splitlines()[0]
    log = re.search(r"^Skipped: .* revision 9: does not build: .*\(log: (\S+)\)$", done.stdout, re.MULTILINE)
    assert log
    assert "error" in Path(log[1]).read_text()


def test_where_those_that_could_not_be_tried_may_be_the_first_bad_one_all_are_named(arguments, repository):
    _, revisions = repository
    not_14 = f"! grep -q 'revision 14 ' small_allocator.c && {BUILD}"
    ends = {"good": revisions[12], "bad": revisions[16], "build": not_14}
    done = call_heaptape(*arguments("syscalls>=10*good", **ends))
    assert done.status == 1
    first, *others = done.stdout.splitlines()
    assert "one of 3" in first
    assert {line.strip()[:12] for line in others[:3]} == {revisions[number][:12] for number in (13, 14, 15)}
    assert f"Skipped: {revisions[NO_MALLOC][:12]} (2026-01-13) revision 13: small.so defines no malloc" in others


@pytest.mark.parametrize(
    ("condition", "options", "says"),
    [
        ("rss-peak>0.5*good", {}, "holds at the good revision already"),
        ("rss-peak>100*good", {}, "does not hold at the bad revision"),
        ("rss-peak>1.1*good", {"good": "no-such"}, "no revision 'no-such'"),
        ("rss-peak>1.1*good", {"build": "echo broken >&2; exit 3"}, "does not build: status 3: broken"),
        ("rss-peak>1.1*good", {"build": "true"}, "the build made no small.so"),
        ("rss-peak>1.1*good", {"build": "echo text >small.so"}, "small.so: not a shared library"),
        ("rss-peak>1.1*good", {"build": "cc -shared -fPIC -o small.so -x c /dev/null"}, "small.so defines no malloc"),
        ("rss-peak>1.1*good", {"repo": "/"}, "/: not a git repository"),
    ],
)
def test_what_can_not_be_bisected_is_reported_in_one_line(condition, options, says, arguments):
    done = call_heaptape(*arguments(condition, **options))
    assert done.status == 1
    assert done.stdout == ""
    assert says in done.stderr.splitlines()[-1], done.stderr
    assert not [line for line in done.stderr.splitlines() if not line.startswith("heaptape: ")]


def test_both_figures_are_reported_where_the_condition_decides_nothing(arguments):
    done = call_heaptape(*arguments("rss-peak>100*good"))
    assert re.search(r"good: rss-peak [\d.]+ [KM]iB, bad: rss-peak [\d.]+ [KM]iB", done.stderr)


@pytest.mark.parametrize(
    ("condition", "swapped", "says"),
    [("rss>1.1*good", False, "unknown figure 'rss'"), ("rss-peak>1.1*good", True, "--bad is before --good")],
)
def test_wrong_use_is_reported_as_such(condition, swapped, says, arguments, repository):
    _, revisions = repository
    options = {"good": revisions[REVISIONS], "bad": revisions[1]} if swapped else {}
    done = call_heaptape(*arguments(condition, **options))
    assert done.status == 2
    assert says in done.stderr


def test_an_interrupted_bisection_continues_where_it_was(arguments, repository, tmp_path):
    """The build of the fourth revision interrupts: the second run builds none of those before again."""
    _, revisions = repository
    count = tmp_path / "count"
    stop = (
        f"echo x >>{count}; if [ $(wc -l <{count}) = 4 ]; then kill -TERM $(cat {tmp_path}/pid); sleep 100; fi; {BUILD}"
    )
    command = [str(HEAPTAPE), *map(str, arguments("rss-peak>1.5*good", build=stop, cache=tmp_path / "cache"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        (tmp_path / "pid").write_text(str(process.pid))
        out, errors = process.communicate(timeout=240)
    assert process.returncode == 128 + signal.SIGTERM
    assert out == ""
    assert "the same command continues" in errors
    built = list((tmp_path / "cache").glob("*/built/*/small.so"))
    assert len(built) == 3
    stamps = {path: path.stat().st_mtime_ns for path in built}
    done = call_heaptape(*command[1:])
    assert done.status == 0, done.stderr
    assert "revision 7" in done.stdout.splitlines()[0]
    assert {path: path.stat().st_mtime_ns for path in built} == stamps


def test_a_second_bisection_builds_and_measures_nothing_again(arguments, cache, tape):
    again = arguments("rss-peak>1.5*good")
    first = call_heaptape(*again)
    figures = sorted(cache.glob("*/figures/*"))
    logs = {path: path.stat().st_mtime_ns for path in cache.glob("*/built/*/small.so")}
    second = call_heaptape(*again)
    assert (second.status, second.stdout) == (0, first.stdout)
    assert sorted(cache.glob("*/figures/*")) == figures
    assert {path: path.stat().st_mtime_ns for path in cache.glob("*/built/*/small.so")} == logs
