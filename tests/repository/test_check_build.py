# SPDX-License-Identifier: MIT
"""tools/check_build: what `make` says before the first file is compiled."""

from pathlib import Path

from tests.support import REPOSITORY, refused


def test_a_compiler_without_the_thread_pointer_is_refused_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "cc"
    old.write_text('#!/bin/sh\nexec gcc -D__builtin_thread_pointer=unknown "$@"\n')
    old.chmod(0o755)
    refused(REPOSITORY / "tools/check_build", old, says="gcc 11, clang 14")
