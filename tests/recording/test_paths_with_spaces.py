# SPDX-License-Identifier: MIT
"""Installed in a folder whose name has spaces and colons, at which LD_PRELOAD splits paths, heaptape works."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support import CONVERT, OUT, VALGRIND_TOOL, run, succeed


def test_records_and_replays_where_its_own_path_has_spaces(tmp_path):
    prefix, tape, work = tmp_path / "My Projects: 1", tmp_path / "t.tape", tmp_path / "t.work"
    for folder in ("libexec", "lib"):
        (prefix / folder).mkdir(parents=True)
    for file in ("libexec/heaptape-record", "libexec/heaptape-replay", "lib/libheaptape.so", "lib/libreference.so"):
        shutil.copy(OUT / file, prefix / file)
    reference = prefix / "lib" / "libreference.so"
    succeed(prefix / "libexec" / "heaptape-record", "--preload", reference, "-o", tape, "--", "ls")
    assert '"allocator": "libreference.so"' in succeed(CONVERT, "info", "--json", tape).stdout
    succeed(CONVERT, "compile", tape, "-o", work)
    done = succeed(prefix / "libexec" / "heaptape-replay", "--pass", "memory", "--preload", reference, work)
    assert "libreference.so" in done.stdout


@pytest.mark.skipif(not VALGRIND_TOOL.exists(), reason="the Valgrind tool was not built")
def test_counts_instructions_of_a_preloaded_allocator_where_its_own_path_has_spaces(tmp_path):
    prefix, tape, work = tmp_path / "My Projects: 1", tmp_path / "t.tape", tmp_path / "t.work"
    shutil.copytree(VALGRIND_TOOL.parent, prefix / "libexec" / "valgrind")
    shutil.copy(OUT / "libexec" / "heaptape-replay", prefix / "libexec")
    shutil.copy(OUT / "lib" / "libreference.so", prefix)
    succeed(OUT / "libexec" / "heaptape-record", "-o", tape, "--", "ls")
    succeed(CONVERT, "compile", tape, "-o", work)
    replay = prefix / "libexec" / "heaptape-replay"
    done = succeed(replay, "--pass", "instructions", "--preload", prefix / "libreference.so", work)
    assert '"instructions"' in done.stdout


def test_a_folder_that_others_can_write_holds_no_link(tmp_path):
    prefix, links = tmp_path / "My Projects", Path(f"/tmp/heaptape.{os.geteuid()}")
    prefix.mkdir()
    shutil.copy(OUT / "lib" / "libreference.so", prefix)
    library = prefix / "libreference.so"
    links.mkdir(mode=0o755, exist_ok=True)
    about = library.stat()
    inner = links / f"{about.st_dev:x}-{about.st_ino:x}"
    inner.mkdir()
    inner.chmod(0o777)
    try:
        done = run(OUT / "libexec" / "heaptape-record", "--preload", library, "-o", tmp_path / "t.tape", "--", "true")
        assert done.status == 1
        assert "is not this user's alone" in done.stderr
        assert not (inner / library.name).exists()
    finally:
        inner.rmdir()
