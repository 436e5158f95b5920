# SPDX-License-Identifier: MIT
"""An importer is one file of convert/formats/: nothing else names it, and heaptape lists, recognises and reads it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import check, run

ROOT = Path(__file__).resolve().parents[3]
IMPORTER = """/* SPDX-License-Identifier: MIT */
#include "convert/foreign/format.h"

static bool recognises(const char *line) {
  return strcmp(line, "one object") == 0;
}

static int take_line(void *context, const char *line) {
  struct import *import = context;
  static const struct import_facts facts = {.clock = "ordinal", .order = "file", .source = "a test", .lacks = "times"};
  if (!recognises(line))
    return import_bad_line(import, "objects", line);
  if (!import->writer && import_begin(import, &facts) != 0)
    return -1;
  struct trace_event event = event_of_acquire(CALL_malloc, 16 * line_reader_number(import->lines), 24, 0);
  return import_only_thread(import, line_reader_number(import->lines), &event);
}

static int run(struct import *import) {
  return import_lines(import, take_line, import);
}

static const struct import_format import_format = {.recognises_line = recognises, .run = run};

REGISTER_FORMAT(.name = "objects", .description = "objects", .import = &import_format);
"""


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_an_importer_is_one_file(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for part in ("Makefile", "convert", "core", "tools"):
        source = ROOT / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / part if source.is_dir() else tree)
    (tree / "convert/formats/objects.c").write_text(IMPORTER)
    program = tree / "out/libexec/heaptape-convert"
    subprocess.run(
        ["make", "-j2", "OUT=out", "out/libexec/heaptape-convert"], cwd=tree, check=True, capture_output=True
    )
    recording = tmp_path / "recording"
    recording.write_text("one object\none object\n")
    assert "objects        read" in run(program, "convert", "--list").stdout
    assert run(program, "convert", recording, tmp_path / "t.tape").status == 0
    assert check(tmp_path / "t.tape")["live_at_end"] == 2
