# SPDX-License-Identifier: MIT
"""What runs inside a recorded program needs only listed symbols of other libraries (tools/host_symbols.py), and its
functions in assembly are as compiled ones.
"""

import platform
import re
import sys
from pathlib import Path

import pytest

from tests.support import OUT, REPOSITORY, compile_c, run, succeed

CHECK = REPOSITORY / "tools" / "host_symbols.py"
START_FILES = "_ITM_deregisterTMCloneTable ?\n_ITM_registerTMCloneTable ?\n__cxa_finalize ?\n__gmon_start__ ?\n"
OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"


def build(folder: Path, source: str) -> Path:
    return compile_c(folder / "libplanted.so", source, "-shared", "-fPIC")


def check(library: Path, *more: Path) -> tuple[int, str]:
    done = run(sys.executable, CHECK, library, *more)
    return done.status, done.stdout + done.stderr


def test_the_library_needs_only_symbols_of_the_list() -> None:
    assert check(OUT / "lib" / "libheaptape.so") == (
        0,
        f"host_symbols: {OUT / 'lib' / 'libheaptape.so'} needs nothing that allowed_symbols.txt does not allow\n",
    )


def test_a_planted_call_of_printf_is_found(tmp_path: Path) -> None:
    library = build(tmp_path, '#include <stdio.h>\nvoid planted(void) { printf("%d\\n", 1); }\n')
    status, printed = check(library)
    assert status == 1
    assert f"{library}: printf is not in the list" in printed


def test_a_listed_symbol_that_is_no_longer_needed_is_found(tmp_path: Path) -> None:
    library = build(tmp_path, "#include <string.h>\nunsigned long planted(const char *text) { return strlen(text); }\n")
    listed = tmp_path / "list.txt"
    listed.write_text("# Strings.\nstrlen\n" + START_FILES)
    assert check(library, listed)[0] == 0
    listed.write_text("# Strings.\nstrlen\nstrchr\nmemset ?\n" + START_FILES)
    assert check(library, listed) == (1, f"{library}: strchr is in the list and no longer needed\n")


def test_a_symbol_of_one_architecture_is_needed_there_and_nowhere_else(tmp_path: Path) -> None:
    library = build(tmp_path, "#include <string.h>\nunsigned long planted(const char *text) { return strlen(text); }\n")
    listed = tmp_path / "list.txt"
    listed.write_text(f"strlen {platform.machine()}\nstrchr {OTHER}\n" + START_FILES)
    assert check(library, listed)[0] == 0
    listed.write_text(f"strlen {OTHER}\nstrchr {platform.machine()}\n" + START_FILES)
    assert check(library, listed) == (
        1,
        f"{library}: strlen is not in the list: it may not run inside a recorded program\n"
        f"{library}: strchr is in the list and no longer needed\n",
    )


def test_a_damaged_list_is_refused_with_its_line(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("strlen\nstrchr strcmp\n")
    status, printed = check(OUT / "lib" / "libheaptape.so", listed)
    assert status == 1
    assert f"{listed}:2: not one name" in printed


@pytest.mark.skipif(platform.machine() != "x86_64", reason="endbr64 is of x86-64")
@pytest.mark.parametrize("name", ["syscall", "dlopen", "dlmopen"])
def test_functions_in_assembly_are_unwound_and_may_be_jumped_to(name: str) -> None:
    """As the C library's of these names."""
    library = OUT / "lib" / "libheaptape.so"
    symbols = succeed("readelf", "--dyn-syms", "--wide", library).stdout
    (start, length) = re.search(rf"([0-9a-f]+) +(\d+) FUNC .* {name}$", symbols, re.MULTILINE).groups()
    first, last = int(start, 16), int(start, 16) + int(length)
    frames = succeed("readelf", "--debug-dump=frames", library).stdout
    ranges = re.findall(r"FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)", frames)
    assert any(int(begin, 16) <= first and last <= int(end, 16) for begin, end in ranges)
    code = succeed("objdump", "-d", f"--start-address={first:#x}", f"--stop-address={first + 4:#x}", library).stdout
    assert code.rstrip().endswith("endbr64")
