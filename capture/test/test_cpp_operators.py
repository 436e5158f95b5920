"""C++ operators that an allocator brings itself bypass malloc: the recording says so, and only where it is so."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import RECORD, info, run

SOURCE = (
    "#include <map>\n#include <string>\nint main() { std::map<int, std::string> m; m[1] = std::string(99, 'x'); }\n"
)
LINE = "C++ operators new and delete are the allocator's own here and are not recorded"
TCMALLOC = Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("g++"):
        pytest.skip("no g++ here")
    folder = tmp_path_factory.mktemp("cpp")
    (folder / "map.cc").write_text(SOURCE)
    subprocess.run(["g++", "-o", folder / "map", folder / "map.cc"], check=True)
    return folder / "map"


def test_operators_that_bypass_malloc_are_told(program: Path, tmp_path: Path) -> None:
    if not TCMALLOC.exists():
        pytest.skip("no tcmalloc here")
    done = run(RECORD, "-o", tmp_path / "t.tape", "--preload", TCMALLOC, "--", program)
    assert done.status == 0
    assert done.stderr.count(LINE) == 1
    assert "operators" in info(tmp_path / "t.tape")["info"]["lacks"]


def test_operators_that_reach_malloc_are_recorded_as_malloc(program: Path, tmp_path: Path) -> None:
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", program)
    assert done.status == 0
    assert LINE not in done.stderr
    assert "operators" not in info(tmp_path / "t.tape")["info"]["lacks"]


def test_c_program_on_such_an_allocator_lacks_nothing(tmp_path: Path) -> None:
    if not TCMALLOC.exists():
        pytest.skip("no tcmalloc here")
    done = run(RECORD, "-o", tmp_path / "t.tape", "--preload", TCMALLOC, "--", "ls", "/")
    assert LINE not in done.stderr
