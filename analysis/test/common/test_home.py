# SPDX-License-Identifier: MIT
"""Where files are found: in a checkout, under a prefix, in a wheel."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heaptape.common import home

SHOW = """
from heaptape.common.home import SHARED, default_home
home = default_home()
for path in (SHARED, home.program("record"), home.registry_file(), *home.command()): print(path)
"""


@pytest.mark.parametrize(
    ("package", "prefix"), [("lib/heaptape/heaptape", "."), ("site-packages/heaptape", "site-packages/heaptape/prefix")]
)
def test_installed_files_are_found_by_the_package(package, prefix, tmp_path):
    shutil.copytree(home.PACKAGE / "common", tmp_path / package / "common")
    (tmp_path / package / "__init__.py").touch()
    root = (tmp_path / prefix).resolve()
    for name in ("libexec/heaptape/heaptape-record", "share/heaptape/allocators/allocators.toml"):
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    command = [sys.executable, "-c", SHOW]
    output = subprocess.run(command, capture_output=True, text=True, cwd=(tmp_path / package).parent, check=True).stdout
    shared, record, registry, *words = output.splitlines()
    assert Path(shared) == root / "share" / "heaptape"
    assert Path(record) == root / "libexec" / "heaptape" / "heaptape-record"
    assert Path(registry) == root / "share" / "heaptape" / "allocators" / "allocators.toml"
    assert words == [sys.executable, "-m", "heaptape"]


def test_a_launcher_is_what_runs_the_command_where_there_is_one(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "heaptape").touch()
    assert home.Home(tmp_path).command() == [str(tmp_path / "bin" / "heaptape")]


def test_a_checkout_is_its_own_share():
    assert home.SHARED == home.CHECKOUT
    assert home.default_home().directory == home.CHECKOUT / "out"
