# SPDX-License-Identifier: MIT
"""Another glibc is an allocator: the engine runs on the one in a folder, with the figures of the same glibc in its
usual place; what is no glibc that it can run on is refused in a line.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from heaptape.advise import advise
from heaptape.allocators import c_libraries, registry
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import default_home
from heaptape.run import live

from replay.test.engine import make
from tests.support import call_heaptape

KNOWN = registry.load(default_home())
LOADER = c_libraries.LOADERS[os.uname().machine]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """This system's glibc, as a package that was unpacked has it."""
    folder = tmp_path_factory.mktemp("planted")
    place = folder / "usr/lib" / f"{os.uname().machine}-linux-gnu"
    place.mkdir(parents=True)
    system = KNOWN["glibc"].path.parent
    for path in (*system.glob("lib[cm].so.6"), *system.glob(LOADER)):
        shutil.copy(path, place)
    return folder


@pytest.fixture(scope="module")
def built(planted, tmp_path_factory):
    """The same as `make` leaves it: the loader and libm in folders of their own, libc by a link."""
    folder = tmp_path_factory.mktemp("built")
    place = c_libraries.find(planted).library.parent
    for part, name in (("elf", LOADER), ("math", "libm.so.6")):
        (folder / part).mkdir()
        shutil.copy(place / name, folder / part)
    shutil.copy(place / "libc.so.6", folder / "libc.so")
    (folder / "libc.so.6").symlink_to("libc.so")
    return folder


def test_each_pass_runs_on_it_as_on_the_same_glibc_of_the_system(planted, built, tmp_path):
    make(tmp_path / "a.work", ops=4000)
    names = ["glibc", f"glibc={planted}", f"glibc={built}:tcache_count=0"]
    words = [word for name in names for word in ("-a", name)]
    done = call_heaptape(
        "replay", str(tmp_path / "a.work"), *words, "--passes", "memory,instructions,time,bare", "-n", "1", "--json"
    )
    runs = {(run["allocator"], run["pass"]): run for run in json.loads(done.stdout)["runs"]}
    assert len(runs) == 12
    for (label, _), run in runs.items():
        if label != "glibc":
            assert Path(run["malloc"]["path"]).is_relative_to(planted if label.endswith(str(planted)) else built)
    own, other, third = [runs[name.partition(":")[0], "instructions"] for name in names]
    assert own["calls"] == other["calls"]
    assert third["calls"] != own["calls"]
    memory = [runs[name, "memory"] for name in names[:2]]
    assert abs(memory[0]["rss_anon_peak_bytes"] - memory[1]["rss_anon_peak_bytes"]) <= 8192


def test_folders_of_a_build_are_those_that_its_own_script_searches(built):
    found = c_libraries.find(built)
    assert found.folders == (built, built / "math")
    assert found.version == c_libraries.find(KNOWN["glibc"].path.parent).version != ""


FILES = (LOADER, "libc.so.6")


def of(*, loader, library):
    """Fills a folder with two files that begin with these bytes, of the same length."""

    def fill(folder):
        for name, data in zip(FILES, (loader, library), strict=True):
            (folder / name).write_bytes(data.ljust(4096, b"\0"))

    return fill


OWN = Path("/proc/self/exe").read_bytes()[:64]
OTHER = OWN[:18] + b"\x16\0" + OWN[20:]  # s390
SHORT = OWN[:4] + b"\1" + OWN[5:]  # of 32 bits, with the same instructions
TEXT = b"/* GNU ld script */\n"


@pytest.mark.parametrize(
    ("fill", "why"),
    [
        (lambda folder: None, "no libc.so.6 beside"),
        (lambda folder: (folder / "libc.so.6").touch(), "no libc.so.6 beside"),
        (of(loader=OTHER, library=OTHER), f"its {LOADER} is of another processor"),
        (of(loader=OWN, library=OTHER), "its libc.so.6 is of another processor"),
        (of(loader=SHORT, library=SHORT), "of another processor"),
        (of(loader=TEXT, library=OWN), f"its {LOADER} is no ELF file"),
        (of(loader=OWN, library=TEXT), "its libc.so.6 is no ELF file"),
        (lambda folder: [(folder / name).write_bytes(OWN[:20]) for name in FILES], "is no ELF file"),
        (lambda folder: folder.rmdir(), "no such folder"),
    ],
)
def test_what_is_no_glibc_of_this_processor_is_refused_in_a_line(fill, why, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    fill(place)
    with pytest.raises(HeaptapeError, match=f"^[^\n]*{why}[^\n]*$"):
        registry.choose(f"glibc={place}", KNOWN)


@pytest.mark.parametrize("name", ["glibc=", "glibc=:tcache_count=0"])
def test_a_folder_without_a_name_is_refused(name):
    with pytest.raises(UsageError, match="^glibc=: no folder is named behind it$"):
        registry.choose(name, KNOWN)


def test_one_that_cant_load_the_engine_is_said_to_be_at_fault(planted, tmp_path):
    place = shutil.copytree(planted, tmp_path / "old")
    library = c_libraries.find(place).library
    library.write_bytes(library.read_bytes().replace(b"GLIBC_2.34\0", b"GLIBC_2.00\0"))
    make(tmp_path / "a.work", ops=100)
    done = call_heaptape("replay", str(tmp_path / "a.work"), "-a", f"glibc={place}", "--passes", "memory", "--json")
    assert done.status == 1
    assert "it can't load heaptape-replay: too old" in done.stderr


def test_a_loader_that_is_another_program_is_at_fault_and_no_allocator(planted, tmp_path):
    place = shutil.copytree(planted, tmp_path / "other")
    shutil.copy("/bin/true", c_libraries.find(place).loader)
    make(tmp_path / "a.work", ops=100)
    done = call_heaptape("replay", str(tmp_path / "a.work"), "-a", f"glibc={place}", "--passes", "memory", "--json")
    assert done.status == 1
    assert "it can't load heaptape-replay: too old" in done.stderr
    assert "the allocator was killed" not in done.stderr


def test_versions_that_the_engine_cant_run_on_are_named_before_they_are_fetched(tmp_path):
    program = tmp_path / "heaptape-replay"
    program.write_bytes(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0")
    assert c_libraries.too_old(["2.34", "2.43"], program) == ""
    assert c_libraries.too_old(["2.9", "2.31", "2.43"], program) == (
        "glibc 2.9, 2.31 are too old: heaptape-replay here needs 2.34 or newer"
    )


def test_it_is_not_preloaded_into_live_programs(planted):
    with pytest.raises(HeaptapeError, match="can't be preloaded"):
        live.settings_of(registry.choose(f"glibc={planted}", KNOWN), {})


def test_its_settings_are_those_of_glibc_and_ranges_of_them(planted):
    (small, large) = registry.choose_all([f"glibc={planted}:tcache_count=0..1"], KNOWN)
    assert small.environment == {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    assert large.label == f"glibc={planted}:tcache_count=1"
    assert small.preload == ""


def test_advise_names_an_upgrade_that_gains_apart_from_what_can_be_set(planted, tmp_path, monkeypatch):
    make(tmp_path / "a.work", ops=4000)
    words = ["advise", str(tmp_path / "a.work"), "-a", "glibc:tcache_count=0", "-a", f"glibc={planted}"]
    done = call_heaptape(*words, "--json")
    assert f"glibc={planted}" in [one["label"] for one in json.loads(done.stdout)["candidates"]]
    assert not any(str(planted) in str(pick) for pick in json.loads(done.stdout)["picks"])
    assert "Upgrade to" not in done.stdout  # it is the same version
    monkeypatch.setattr(advise, "_changes", lambda one, now: (-3.0, 0.0))
    done = call_heaptape(*words)
    assert "Upgrade to" in done.stdout
    assert "LD_PRELOAD" not in done.stdout


def test_a_setting_that_does_nothing_in_a_version_is_refused_in_a_line(planted, tmp_path):
    place = shutil.copytree(planted, tmp_path / "later")
    library = c_libraries.find(place).library
    version = c_libraries.find(place).version.encode()
    library.write_bytes(library.read_bytes().replace(b"version " + version, b"version 9.99"[: 8 + len(version)]))
    assert c_libraries.find(place).version != version.decode()
    for setting, why in (("mxfast=0", "mxfast has no effect"), ("no-fastbins", "not in this version")):
        registry.choose(f"glibc={planted}:{setting}", KNOWN)
        with pytest.raises(HeaptapeError, match=f"^[^\n]*{why}[^\n]*$"):
            registry.choose(f"glibc={place}:{setting}", KNOWN)
    assert registry.choose(f"glibc={place}:no-tcache-no-fastbins", KNOWN).environment


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Makes `glibc=there` of a version whose dynamic linker lists these tunables; none: it can't list them."""

    def make_one(version, *tunables):
        listed = "".join(f"echo 'glibc.malloc.{name}: 0x0 (min: 0x0, max: 0xff)'\n" for name in tunables)
        loader = tmp_path / "ld.so"
        loader.write_text("#!/bin/sh\n" + (listed or "exit 127\n"))
        loader.chmod(0o755)
        one = c_libraries.CLibrary(KNOWN["glibc"].path, loader, (), version)
        monkeypatch.setattr(c_libraries, "find", lambda folder: one)
        return lambda setting: registry.choose(f"glibc=there:{setting}", KNOWN)

    return make_one


def test_a_tunable_that_the_dynamic_linker_does_not_list_is_refused_in_a_line(other):
    choose = other("2.31", "tcache_count", "mxfast")
    with pytest.raises(HeaptapeError, match="^glibc=there:hugetlb=1: version 2.31 has no tunable hugetlb$"):
        choose("hugetlb=1")
    with pytest.raises(HeaptapeError, match="^variant 'thp' of glibc=there: not in this version"):
        choose("thp")
    assert choose("tcache_count=0").environment


def test_a_dynamic_linker_that_lists_nothing_is_taken_to_know_all(other):
    assert other("2.31")("hugetlb=1").environment


@pytest.mark.parametrize(("version", "most", "default"), [("2.36", 1032, "7"), ("2.43", 4194280, "16")])
def test_limits_and_defaults_are_those_of_the_version(version, most, default, other):
    choose = other(version)
    assert choose(f"tcache_max={most}").environment
    with pytest.raises(HeaptapeError, match="out of its range"):
        choose(f"tcache_max={most + 1}")
    there = registry.named("glibc=there", KNOWN)
    assert there.tunables.space["tcache_count"].default == default
