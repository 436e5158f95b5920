# SPDX-License-Identifier: MIT
"""Packages of Debian come through apt-get, once; a planted one stands for the archive."""

import os
import shutil
import subprocess

import planted_crates as planted
import pytest
from heaptape.allocators import c_libraries, installed, registry
from heaptape.common.home import Home, default_home
from heaptape.features.candidates import downloads

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
def debian_place(tmp_path, monkeypatch):
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


def test_a_package_is_fetched_once_and_its_library_kept(debian_place):
    for again in ([], ["--rebuild"]):
        done = call_heaptape("allocators", "install", "planted@14", "--no-verify", *again)
        assert done.status == 0, done.stderr
    assert (debian_place / "asked").read_text() == "download libplanted14\n"
    (one,) = installed.find_all(installed.root())
    assert (one.record.source.release, one.record.build, one.record.compiler) == ("1:14.0-2", "", ())
    assert one.path.name == "libplanted.so"


def test_a_package_that_apt_does_not_have_is_one_line(debian_place):
    next(debian_place.glob("*.deb")).unlink()
    done = call_heaptape("allocators", "install", "planted@14", "--no-verify")
    assert done.status == 1
    assert done.stderr == "heaptape: apt-get download libplanted14: Unable to locate package (apt-get update?)\n"


OF_SUITE = """
[glibc]
registry = "debian"
package = "libplanted14"
licence = "MIT"
folder = "usr/lib"
library = "{machine}/libc.so.6"
beside = "*.so*"
[glibc.versions]
"14.0" = { suite = "old" }
"15" = { suite = "old" }
"""
APT = """#!/bin/sh
echo "$@" >>%s/asked
sources=$(echo "$*" | sed 's/.*Dir::Etc::SourceList=\\([^ ]*\\).*/\\1/')
case "$*" in
*" update") cat "$sources" >>%s/sources ;;
*" download libplanted14") cp %s . ;;
*) exit 100 ;;
esac
"""


@pytest.fixture
def glibc_place(debian_place, monkeypatch):
    """The planted package has this system's glibc; Debian's keys are here."""
    place = debian_place / "package/usr/lib" / os.uname().machine
    system = registry.c_library().parent
    for name in ("libc.so.6", "libm.so.6", c_libraries.LOADERS[os.uname().machine]):
        shutil.copy(system / name, place)
    package = next(debian_place.glob("*.deb"))
    subprocess.run(["dpkg-deb", "--build", debian_place / "package", package], check=True, stdout=subprocess.DEVNULL)
    (debian_place / "bin/apt-get").write_text(APT % (debian_place, debian_place, package))
    (debian_place / "recipes.toml").write_text(OF_SUITE)
    (debian_place / "keys").touch()
    monkeypatch.setattr(downloads, "KEYRING", debian_place / "keys")
    return debian_place


def test_a_glibc_of_another_release_is_kept_whole_and_not_preloaded(glibc_place):
    for again in ([], ["--rebuild"]):
        done = call_heaptape("allocators", "install", "glibc@14.0", "--no-verify", *again)
        assert done.status == 0, done.stderr
    assert (glibc_place / "sources").read_text() == (
        f"deb [signed-by={glibc_place / 'keys'}] http://deb.debian.org/debian old main\n"
    )
    choice = registry.choose("glibc@14.0:tcache_count=0", registry.load(default_home()))
    folder = installed.root() / "glibc@14.0"
    assert (choice.preload, choice.path) == ("", folder / "libc.so.6")
    assert (choice.c_library.loader.parent, choice.c_library.folders) == (folder, (folder,))


def test_a_release_that_has_another_version_now_and_missing_keys_are_a_line(glibc_place, monkeypatch):
    done = call_heaptape("allocators", "install", "glibc@15", "--no-verify")
    assert done.stderr == "heaptape: Debian's old has libplanted14 1:14.0-2 now, and not 15\n"
    monkeypatch.setattr(downloads, "KEYRING", glibc_place / "none")
    done = call_heaptape("allocators", "install", "glibc@15", "--no-verify")
    assert done.stderr.endswith("apt-get install debian-archive-keyring\n")
    assert not list(installed.root().glob("*"))


@pytest.mark.long
def test_debians_next_glibc_keeps_the_rules_of_malloc(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = call_heaptape("allocators", "install", "glibc@testing")
    if "apt-get update" in done.stderr or "debian-archive-keyring" in done.stderr:
        pytest.skip("no network, or not Debian's keys")
    assert "keeps the rules of malloc" in done.stdout, done.stderr


def test_programs_that_are_missing_are_named_with_their_package(debian_place, monkeypatch):
    monkeypatch.setenv("PATH", str(debian_place / "bin"))
    done = call_heaptape("allocators", "install", "planted@14", "--no-verify")
    assert done.stderr == "heaptape: planted@14 needs dpkg-deb, readelf: apt-get install dpkg binutils\n"
