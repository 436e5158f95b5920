"""Every C test program that was built: its name is its claim, exit 0 = holds, 77 = skipped (it says why)."""

import subprocess
from pathlib import Path

import pytest

from tests.support import OUT

SKIPPED = 77
TIMEOUT_S = 240


def built_programs() -> list[Path]:
    return sorted(path for path in (OUT / "test").rglob("*") if path.is_file())


@pytest.mark.parametrize("program", built_programs(), ids=lambda path: str(path.relative_to(OUT / "test")))
def test_program(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, cwd=tmp_path)
    said = (done.stdout + done.stderr).strip()
    if done.returncode == SKIPPED:
        pytest.skip(said or "it does not say why")
    assert done.returncode == 0, f"exit status {done.returncode}\n{said[-4000:]}"


def test_programs_were_built() -> None:
    assert built_programs(), f"nothing under {OUT / 'test'}: run make programs"
