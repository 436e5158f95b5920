# SPDX-License-Identifier: MIT
"""The registry finds the allocators here and its settings are real; doubts of a recording's witness are reported."""

import json
import os
import subprocess

import pytest
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.common.home import Home, default_home
from heaptape.results.disturbance import doubts
from heaptape.run import registry
from heaptape.run.registry import Proof
from heaptape.tape.workload_format import END, SIZE_HIGH, read_workload
from hypothesis import given
from hypothesis import strategies as st

from tests.support import compile_c

KNOWN = registry.load(default_home())


def run_true(allocator, environment):
    """Standard error of `true` under the allocator."""
    preload = {"LD_PRELOAD": str(allocator.path)} if allocator.library else {}
    return subprocess.run(["true"], env=os.environ | preload | environment, capture_output=True, text=True).stderr


def library(path, exports, texts):
    """A shared library that defines malloc and these functions, and contains these texts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    functions = "".join(f"void {name}(void) {{}}\n" for name in ("malloc", *exports))
    return compile_c(path, functions + f"const char texts[] = {json.dumps(' '.join(texts))};\n", "-shared", "-fPIC")


@pytest.mark.parametrize("name", KNOWN)
def test_a_library_is_found_by_what_it_exports_and_contains_not_by_its_name_alone(name, tmp_path, monkeypatch):
    """A look-alike has all that proves the other allocators."""
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


def test_glibc_is_always_found_and_preloads_nothing():
    choice = registry.choose("glibc", KNOWN)
    assert choice.preload == ""
    assert choice.path.name.startswith("libc")


def test_a_library_by_path_and_settings_by_hand():
    path = KNOWN["glibc"].path
    choice = registry.choose(f"{path}:A=1:2 B=x,y", KNOWN)
    assert choice.environment == {"A": "1:2", "B": "x,y"}
    assert registry.choose("glibc:GLIBC_TUNABLES=glibc.malloc.arena_max=2", KNOWN).environment == {
        "GLIBC_TUNABLES": "glibc.malloc.arena_max=2"
    }


@pytest.mark.parametrize("name", ["", "nosuch", "glibc:nosuch", "/no/such.so", ":"])
def test_unknown_names_are_one_line(name):
    with pytest.raises(HeaptapeError) as error:
        registry.choose(name, KNOWN)
    assert "\n" not in str(error.value)


def test_doubts_are_those_of_the_witness():
    assert doubts({"witness": {"ok": True, "truncated": False, "unseen_frees": 0}}) == []
    assert doubts({}) == []
    found = doubts({"witness": {"truncated": True, "unseen_frees": 1200}})
    assert found == ["the trace is truncated: its end is missing", "1,200 frees of objects never seen were left out"]


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


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a]\nlibary = 'a.so'\n", "a: Object contains unknown field `libary`"),
        ("[a]\npackage = 'a'\n", "a: Object missing required field `library`"),
        (
            "[a]\nlibrary = 'a.so'\n[a.variants.v]\nenvironment = {N = 1}\n",
            "a: variants.*environment.*Expected `str`, got `int`",
        ),
        ("[a]\nlibrary = 'a.so'\n[a.tunables]\nvariable = 'N'\n", "a: tunables: Object missing required field `space`"),
        ("[a\n", "Expected"),
    ],
)
def test_a_malformed_registry_is_refused_by_file_and_place(tmp_path, monkeypatch, text, complaint):
    path = tmp_path / "allocators.toml"
    path.write_text(text)
    monkeypatch.setattr(Home, "registry_file", lambda self: path)
    with pytest.raises(HeaptapeError, match=complaint) as caught:
        registry.load(Home(tmp_path))
    assert str(caught.value).startswith(f"{path}: ")
