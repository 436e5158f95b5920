# SPDX-License-Identifier: MIT
"""Packages of Debian come through apt-get, once; a planted one stands for the archive."""

import os
import shutil
import subprocess

import planted_crates as planted
import pytest
from heaptape.common.home import Home
from heaptape.run import installed

from tests.support import call_heaptape, compile_c

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb: this is no Debian")
RECIPE = """
[planted]
registry = "debian"
licence = "MIT"
folder = "usr/lib"
build = ""
library = "{machine}/lib*.so"
[planted.versions]
"14" = { package = "libplanted14" }
"""
CONTROL = "Package: libplanted14\nVersion: 1:14.0-2\nArchitecture: all\nMaintainer: x\nDescription: x\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A planted apt-get, which has one package and counts its calls; the folder."""
    libraries = tmp_path / "package" / "usr" / "lib" / os.uname().machine
    libraries.mkdir(parents=True)
    compile_c(libraries / "libplanted.so", planted.ALLOCATOR, "-shared", "-fPIC")
    (tmp_path / "package" / "DEBIAN").mkdir()
    (tmp_path / "package" / "DEBIAN" / "control").write_text(CONTROL)
    package = tmp_path / "libplanted14_1%3a14.0-2_all.deb"
    subprocess.run(["dpkg-deb", "--build", tmp_path / "package", package], check=True, stdout=subprocess.DEVNULL)
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "apt-get"
    program.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n'
        f'[ "$*" = "download libplanted14" ] && [ -e {package} ] && exec cp {package} .\n'
        "echo 'E: Unable to locate package' >&2; exit 100\n"
    )
    program.chmod(0o755)
    (tmp_path / "recipes.toml").write_text(RECIPE)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Home, "candidates_file", lambda self: tmp_path / "recipes.toml")
    return tmp_path


def test_a_package_is_fetched_once_and_its_library_kept(place):
    for again in ([], ["--rebuild"]):
        done = call_heaptape("allocators", "install", "planted@14", "--no-verify", *again)
        assert done.status == 0, done.stderr
    assert (place / "asked").read_text() == "download libplanted14\n"
    (one,) = installed.find_all(installed.root())
    assert (one.record.source.release, one.record.build, one.record.compiler) == ("1:14.0-2", "", ())
    assert one.path.name == "libplanted.so"


def test_a_package_that_apt_does_not_have_is_one_line(place):
    next(place.glob("*.deb")).unlink()
    done = call_heaptape("allocators", "install", "planted@14", "--no-verify")
    assert done.status == 1
    assert done.stderr == "heaptape: apt-get download libplanted14: Unable to locate package (apt-get update?)\n"


def test_programs_that_are_missing_are_named_with_their_package(place, monkeypatch):
    monkeypatch.setenv("PATH", str(place / "bin"))
    done = call_heaptape("allocators", "install", "planted@14", "--no-verify")
    assert done.stderr == "heaptape: planted@14 needs dpkg-deb, readelf: apt-get install dpkg binutils\n"
