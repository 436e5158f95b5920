# SPDX-License-Identifier: MIT
"""The registry finds the allocators here and its settings are real. The libraries that engines load on every allocator.
Tunables are real settings of their allocators, and values that these would not accept are refused.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from heaptape.allocators import installed, registry
from heaptape.allocators.registry import Choice, Proof
from heaptape.common.engine import BY_NAME
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.common.home import Home, default_home
from heaptape.run import replay
from heaptape.run.rounds import Run, Settings
from heaptape.tape.workload_format import END, SIZE_HIGH, read_workload
from hypothesis import given
from hypothesis import strategies as st

from tests.support import REPOSITORY, compile_c

KNOWN = registry.load(default_home())


def run_true(allocator, environment):
    """Standard error of `true` under the allocator."""
    preload = {"LD_PRELOAD": str(allocator.path)} if allocator.library else {}
    return subprocess.run(["true"], env=os.environ | preload | environment, capture_output=True, text=True).stderr


def library(path, exports, texts):
    """A shared library that defines malloc and these functions, and contains these texts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    functions = "#include <stddef.h>\n" + "".join(f"void {name}(void) {{}}\n" for name in ("malloc", *exports))
    return compile_c(path, functions + f"const char texts[] = {json.dumps(' '.join(texts))};\n", "-shared", "-fPIC")


@pytest.mark.parametrize("name", KNOWN)
def test_a_library_is_found_by_what_it_exports_and_contains_not_by_its_name_alone(name, tmp_path, monkeypatch):
    """A look-alike has all that proves the other allocators."""
    monkeypatch.setattr(installed, "root", lambda: tmp_path / "installed")
    allocator, home = KNOWN[name], Home(tmp_path)
    real = default_home().registry_file()
    monkeypatch.setattr(Home, "registry_file", lambda self: real)
    path = tmp_path / "lib" / (allocator.library or "libc.so.6")
    monkeypatch.setattr(registry, "c_library", lambda: path)
    others = [one.proof for one in KNOWN.values() if one.name != name]
    proof = allocator.proof
    assert proof.exports or proof.contains
    exports = {name for one in others for name in one.exports} - ({*proof.exports} if not proof.contains else set())
    library(path, exports, {text for one in others for text in one.contains} - {*proof.contains})
    look_alike = registry.load(home)[name]
    assert look_alike.path != path
    if not look_alike.found:
        with pytest.raises(HeaptapeError, match=f"{name} is not installed \\({path} is another allocator"):
            registry.choose(name, {name: look_alike})
    for also in proof.lacks:
        library(path, (*proof.exports, also), proof.contains)
        assert registry.load(home)[name].path != path
    library(path, proof.exports, proof.contains)
    assert registry.load(home)[name].path == path


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"\x7fELF\2\1" + b"\xff" * 60, "cut", "not for this processor"])
def test_what_is_no_shared_library_is_no_allocator(damage, tmp_path):
    whole = library(tmp_path / "lib.so", ["mi_malloc"], []).read_bytes()
    changed = {"cut": whole[:-200], "not for this processor": whole[:4] + b"\1" + whole[5:]}
    (tmp_path / "lib.so").write_bytes(changed[damage] if isinstance(damage, str) else damage)
    assert not Proof(exports=("mi_malloc",)).holds(tmp_path / "lib.so")
    assert not Proof().holds(tmp_path)


@pytest.mark.parametrize(("name", "variant"), [(a.name, v) for a in KNOWN.values() for v in a.variants])
def test_settings_of_variants_are_known_to_the_allocator(name, variant):
    """Checks with each allocator that reports unknown settings that it knows this one, and that it would report
    others.
    """
    allocator = KNOWN[name]
    if not allocator.found:
        pytest.skip(f"{name}: {allocator.how_to_get}")
    settings = allocator.variants[variant].environment
    binary = allocator.path.read_bytes()
    if name == "glibc":
        linker = next(p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(p))  # noqa: PTH110
        listed = subprocess.run([linker, "--list-tunables"], capture_output=True, text=True).stdout
        tunables = [pair.partition("=")[0] for pair in settings["GLIBC_TUNABLES"].split(":")]
        assert all(f"{tunable}:" in listed for tunable in tunables)
    elif name == "jemalloc":
        assert "Invalid conf" in run_true(allocator, {"MALLOC_CONF": "nosuch:1"})
        assert run_true(allocator, settings) == ""
    elif name in ("reference", "magazine"):
        assert "unknown tunable" in run_true(allocator, {f"{name.upper()}_TUNABLES": "nosuch=1"})
        assert run_true(allocator, settings) == ""
    elif name == "mimalloc":
        shown = subprocess.run(
            ["ls", "/"],
            env={"LD_PRELOAD": str(allocator.path), "MIMALLOC_VERBOSE": "1"} | settings,
            capture_output=True,
            text=True,
        )
        for key, value in settings.items():
            assert f"option '{key.removeprefix('MIMALLOC_').lower()}': {value}" in shown.stderr
    else:
        searched = [allocator.path, allocator.path.with_name("libtbbmalloc.so.2")]
        binary = b"".join(path.read_bytes() for path in searched if path.exists())
        assert all(key.encode() in binary for key in settings)


def test_where_only_glibc_is_two_lines_say_what_installs_the_others(monkeypatch, tmp_path):
    """Each release has another name for two of the packages, and apt lists them among others."""
    listed = {
        "libmimalloc": "libmimalloc-dev\nlibmimalloc2.0\nlibmimalloc3\n",
        "libtcmalloc-minimal4": "libtcmalloc-minimal4t64\n",
    }
    monkeypatch.setattr(registry, "_run", lambda *command: listed.get(command[-1], ""))
    monkeypatch.setattr(registry.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "apt-get" else None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    alone = {
        name: msgspec.structs.replace(one, path=one.path if name in ("glibc", "reference") else None)
        for name, one in KNOWN.items()
    }
    names, line = registry.how_to_get_others(alone).splitlines()
    assert names.startswith("jemalloc, tcmalloc, mimalloc and tbbmalloc are not installed")
    packages = "libjemalloc2 libtcmalloc-minimal4t64 libmimalloc3 libtbbmalloc2"
    assert line == f"To compare them: apt-get install {packages}"
    listed.clear()
    assert "apt-get update" in registry.how_to_get_others(alone)
    monkeypatch.setattr(registry.shutil, "which", lambda name: None)
    assert "allocators install mimalloc" in registry.how_to_get_others(alone)
    monkeypatch.setattr(registry, "IN_WHEEL", tmp_path)
    for processor, has_wheel in (("x86_64", True), ("aarch64", False)):
        with monkeypatch.context() as here:
            here.setattr(os, "uname", lambda name=processor: SimpleNamespace(machine=name))
            line = registry.how_to_get_others(alone).splitlines()[-1]
        assert line.endswith("pip install 'heaptape[allocators]'") == has_wheel
    with_one = alone | {"jemalloc": msgspec.structs.replace(alone["jemalloc"], path=Path("/lib/x.so"))}
    assert registry.how_to_get_others(with_one) == ""


@pytest.fixture(scope="module")
def workload(tmp_path_factory, heaptape, small_tape):
    path = tmp_path_factory.mktemp("work") / "small.work"
    assert heaptape("compile", small_tape, "-o", path).returncode == 0
    return path


def test_workload_reads_as_its_header_says(workload):
    work = read_workload(workload)
    ops = [work.ops_of(thread) for thread in range(work.threads)]
    assert [len(o) for o in ops] == list(work.op_counts)
    assert sum(map(len, ops)) == work.ops
    schedule = work.schedule()
    assert schedule["ops"].sum() == work.ops
    assert schedule.groupby("thread")["ops"].sum().tolist() == list(work.op_counts)
    line = work.timeline()
    assert line["position"].is_monotonic_increasing
    assert line["position"].iloc[-1] == work.ops
    assert line["live_bytes"].max() == work.peak_live_bytes
    sizes = sum(int(o.loc[o["call"] == 0, "size"].sum()) for o in ops)
    assert sizes == sum(16 + i % 900 for i in range(4000))
    assert (END, SIZE_HIGH) == (0xFF, 0xF0)


@given(where=st.integers(0, 255), flip=st.integers(1, 255))
def test_a_damaged_header_is_refused(workload, tmp_path_factory, where, flip):
    data = bytearray(workload.read_bytes())
    data[where] ^= flip
    path = tmp_path_factory.getbasetemp() / "damaged.work"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        read_workload(path)


@given(st.integers(0, 10**6))
def test_a_cut_workload_is_refused(workload, tmp_path_factory, cut):
    data = workload.read_bytes()
    path = tmp_path_factory.getbasetemp() / "cut.work"
    path.write_bytes(data[: cut % len(data)])
    with pytest.raises(FormatError):
        read_workload(path)


# Candidates are tested if they are installed.
HERE = [
    allocator for allocator in KNOWN.values() if allocator.tunables and (allocator.found or not allocator.candidate)
]
ALL = [(allocator.name, name) for allocator in HERE for name in allocator.tunables.space]
OWN = [name for name in ("reference", "magazine", "bucket") if (REPOSITORY / "allocators" / name).is_dir()]
LIBMTMALLOC = ("bucket", "libmtmalloc-names")  # sets variables that Solaris has
LINKER = "/lib64/ld-linux-x86-64.so.2"


def environment(name, tunable):
    """The environment for each end of the tunable's search range."""
    tunables = KNOWN[name].tunables
    return [tunables.environment({tunable: value}) for value in tunables.space[tunable].ends]


def errors_of(allocator, settings, *command):
    preload = {"LD_PRELOAD": str(allocator.path)} if allocator.library else {}
    return subprocess.run(
        command or ["true"], env=os.environ | preload | settings, capture_output=True, text=True
    ).stderr


@pytest.mark.parametrize(("name", "tunable"), ALL)
def test_settings_are_known_to_the_allocator(name, tunable):
    """Checks each allocator that reports unknown settings, at both ends of the search range."""
    allocator = KNOWN[name]
    if not allocator.found:
        pytest.skip(f"{name}: {allocator.how_to_get}")
    if name == "glibc":
        listed = subprocess.run([LINKER, "--list-tunables"], capture_output=True, text=True).stdout
        low, high = re.search(rf"glibc\.malloc\.{tunable}: .*\(min: (\w+), max: (\w+)\)", listed).groups()
        searched = allocator.tunables.space[tunable]
        assert all(int(low, 0) <= int(end) <= int(high, 0) for end in (*map(str, searched.range), *searched.ends))
    elif name in ("jemalloc", *OWN):
        assert "nosuch" in errors_of(allocator, allocator.tunables.environment({tunable: "nosuch"}))
        assert not any(errors_of(allocator, settings) for settings in environment(name, tunable))
    elif name == "mimalloc":
        for settings in environment(name, tunable):
            ((key, value),) = settings.items()
            shown = errors_of(allocator, settings | {"MIMALLOC_VERBOSE": "1"}, "ls", "/")
            printed = int(value) >> 10 if tunable == "reserve_os_memory" else value  # printed in KiB
            assert f"option '{key.removeprefix('MIMALLOC_').lower()}': {printed}" in shown
    else:
        searched = [allocator.path, allocator.path.with_name("libtbbmalloc.so.2")]
        binary = b"".join(path.read_bytes() for path in searched if path.exists())
        assert all(key.encode() in binary for settings in environment(name, tunable) for key in settings)


@pytest.mark.parametrize("name", OWN)
def test_ranges_and_defaults_of_ours_are_those_of_their_source(name):
    files = [REPOSITORY / "allocators" / part / "tunables.def" for part in (name, "common")]
    source = "".join(path.read_text() for path in files)
    space = KNOWN[name].tunables.space
    rows = re.findall(r"^TUNABLE\((\w+), (\d+), (\d+), (\w+), ", source, re.MULTILINE)
    choices = re.findall(r'^CHOICE\((\w+), (\d+), "([\w ]+)", ', source, re.MULTILINE)
    assert {row[0] for row in rows + choices} == set(space)
    assert all(space[name].values == tuple(words.split()) for name, _, words in choices)
    for name, standard, low, high in rows:
        one = space[name]
        if one.is_number:
            assert one.range == (int(low), 2**63 - 1 if high == "SIZE_MAX" else int(high))
            assert one.default in (standard, "")
        elif one.type == "boolean":
            assert (one.values, one.default) == (("0", "1"), standard)


@pytest.mark.parametrize("name", list(KNOWN))
def test_every_variant_is_made_of_tunables_that_the_allocator_takes(name):
    tunables = KNOWN[name].tunables
    for key, variant in KNOWN[name].variants.items():
        if (name, key) == LIBMTMALLOC:
            continue
        settings = tunables.settings(variant.environment)
        assert settings is not None
        assert tunables.environment(settings) == variant.environment
        tunables.check(settings)


@pytest.mark.parametrize(("name", "tunable"), ALL)
def test_levels_are_in_order_and_in_the_search_but_for_the_default(name, tunable):
    one = KNOWN[name].tunables.space[tunable]
    levels = one.levels()
    assert not any(map(one.complaint, levels))
    assert len(set(levels)) == len(levels)
    assert not one.default or one.default in levels
    assert set(one.ends) <= set(levels)
    if one.is_number:
        assert sorted(levels, key=int) == list(levels)
        assert all(int(one.ends[0]) <= int(level) <= int(one.ends[1]) or level == one.default for level in levels)


@given(st.data())
def test_settings_come_back_from_the_environment(data):
    tunables = KNOWN[data.draw(st.sampled_from([a.name for a in KNOWN.values() if a.tunables]))].tunables
    names = data.draw(st.lists(st.sampled_from(tunables.names), unique=True))
    settings = {name: data.draw(st.sampled_from(tunables.space[name].levels())) for name in names}
    assert tunables.settings(tunables.environment(settings)) == settings


@given(st.sampled_from(list(BY_NAME)), *[st.booleans()] * 4, *[st.integers(0, 3)] * 2)
def test_the_engine_is_told_each_setting_that_the_pass_takes_and_nothing_else(
    name, aslr, plain, cores, real, lines, warm
):
    facts, choice = BY_NAME[name], Choice("a", "default", Path("/a.so"), "/a.so", {"KEY": "VALUE"})
    told = {"aslr": aslr, "as-malloc": plain and facts.as_malloc, "threads-to-cores": cores, "warm": warm,
            "clock": "real" * real, "disturb": lines * facts.disturb}  # fmt: skip
    settings = Settings(
        aslr=aslr, as_malloc=plain, threads_to_cores=cores, real_clock=real, disturb_lines=lines, warm_rounds=warm
    )
    spec = replay._spec_of(settings, Run(choice, name, 0))
    assert spec == {key: value for key, value in told.items() if value} | {"preload": ["/a.so"], "env": ["KEY=VALUE"]}
