# SPDX-License-Identifier: MIT
"""Installed in a folder whose name has spaces and colons, at which LD_PRELOAD splits paths, heaptape works."""

import shutil

from tests.support import CONVERT, OUT, succeed


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
