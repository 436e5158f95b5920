# SPDX-License-Identifier: MIT
"""clang links its sanitizers, with their malloc, into the executable."""

import shutil
from pathlib import Path

import pytest

from capture.test.unharmed.test_unchanged import assert_sanitized_is_recorded


@pytest.mark.skipif(not shutil.which("clang"), reason="needs clang")
def test_a_program_with_a_sanitizer_of_clang_runs_finds_its_error_and_is_recorded(tmp_path: Path) -> None:
    assert_sanitized_is_recorded(tmp_path, "clang")
