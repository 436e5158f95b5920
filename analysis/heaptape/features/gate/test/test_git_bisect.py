# SPDX-License-Identifier: MIT
"""`git bisect run heaptape gate` over the revisions of a small allocator, as docs/use/GATE.md shows it."""

import os
import shlex
import shutil
import subprocess

import pytest

from tests.support import HEAPTAPE, REPOSITORY, call_heaptape, import_text

SOURCE = (REPOSITORY / "analysis" / "test" / "small_allocator.c").read_text()
REVISIONS = 8
BUILD = "cc -O1 -fno-builtin -shared -fPIC -o small.so small_allocator.c"
DOES_NOT_BUILD, NO_MALLOC, WORSE_SINCE = 3, 6, 5
OLD, NEW = "#define GRAIN ((size_t)16)", "#define GRAIN ((size_t)512)"
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}


def git(folder, *arguments):
    surroundings = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, env=surroundings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_repository(folder):
    """Commits with subjects of their numbers; returns the library of the first."""
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(1, REVISIONS + 1):
        text = SOURCE + f"/* revision {number} */\n"
        assert OLD in text
        text = text.replace(OLD, NEW) if number >= WORSE_SINCE else text
        text = text + "this is no C\n" if number == DOES_NOT_BUILD else text
        (folder / "small_allocator.c").write_text("int nothing;\n" if number == NO_MALLOC else text)
        git(folder, "add", "small_allocator.c")
        git(folder, "commit", "-q", "-m", f"revision {number}")
        if number == 1:
            subprocess.run(shlex.split(BUILD), cwd=folder, check=True)
            shutil.copy(folder / "small.so", folder.parent / "good.so")
    return folder.parent / "good.so"


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    """4,000 objects, every fourth of which is freed."""
    lines = []
    for i in range(4000):
        lines.append(f"{2 * i} 1 malloc({24 + i % 80}) = {0x10000 + 1024 * i:#x}")
        if i % 4 == 0:
            lines.append(f"{2 * i + 1} 1 free({0x10000 + 1024 * i:#x})")
    return import_text(tmp_path_factory.mktemp("tape"), "\n".join(lines) + "\n", "clock=nanoseconds")


def test_git_finds_the_revision_since_which_an_allocator_is_worse_and_skips_what_can_not_be_measured(tape, tmp_path):
    folder = tmp_path / "small"
    good = make_repository(folder)
    gate = shlex.join(
        [*map(str, [HEAPTAPE, "gate", "--old", good, "--new", "./small.so", tape])]
        + ["--tolerate", "rss-peak=50%", "--minimise", "none"]
    )
    git(folder, "bisect", "start", "HEAD", f"HEAD~{REVISIONS - 1}")
    found = git(folder, "bisect", "run", "sh", "-c", f"rm -f small.so; {BUILD} || exit 125; {gate}")
    assert "is the first bad commit" in found
    assert f"revision {WORSE_SINCE}\n" in found.partition("is the first bad commit")[2]


def test_what_can_not_be_measured_is_125_and_what_is_wrong_usage_2(tape, tmp_path):
    empty = tmp_path / "empty.so"
    subprocess.run(["cc", "-shared", "-o", empty, "-xc", "/dev/null"], check=True)
    pair = ("--old", "glibc", "--minimise", "none", tape, "--new")
    assert call_heaptape("gate", *pair, tmp_path / "missing.so").status == 125
    assert call_heaptape("gate", *pair, empty).status == 125
    assert call_heaptape("gate", *pair, "none-such").status == 2
    assert call_heaptape("gate", *pair, "glibc").status == 0
