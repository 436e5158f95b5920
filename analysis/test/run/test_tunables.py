# SPDX-License-Identifier: MIT
"""Tunables are real settings of their allocators, and values that these would not accept are refused."""

import os
import re
import subprocess

import msgspec
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.run import registry
from heaptape.run.tunables import Tunable, Tunables
from hypothesis import given
from hypothesis import strategies as st

from tests.support import REPOSITORY

KNOWN = registry.load(default_home())
# Candidates are tested if they are installed.
HERE = [
    allocator for allocator in KNOWN.values() if allocator.tunables and (allocator.found or not allocator.candidate)
]
ALL = [(allocator.name, name) for allocator in HERE for name in allocator.tunables.space]
OWN = ("reference", "magazine", "bucket")
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


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("glibc:tcache_count=65536", "glibc: tcache_count=65536: 65536 is out of its range, 0 to 65535"),
        ("glibc:tcache_count=-1", "-1 is out of its range"),
        ("glibc:mxfast=8k", "'8k' is not a whole number"),
        ("jemalloc:thp=often", "'often' is none of default, always, never"),
        ("reference:tcache_count=0..70000/10000", "70000 is out of its range"),
    ],
)
def test_a_value_out_of_range_is_refused_in_one_line_with_the_unchecked_setting(name, says):
    with pytest.raises(HeaptapeError, match=re.escape(says)) as caught:
        registry.choose_all([name], KNOWN)
    assert "sets it unchecked" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_environment_sets_what_is_out_of_range():
    given_by_hand = "GLIBC_TUNABLES=glibc.malloc.tcache_count=70000"
    assert registry.choose(f"glibc:{given_by_hand}", KNOWN).environment == dict([given_by_hand.split("=", 1)])


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "integer", "meaning": ""},
        {"type": "integer", "meaning": "", "range": (2, 1)},
        {"type": "integer", "meaning": "", "range": (0, 1), "values": ("a", "b")},
        {"type": "bytes", "meaning": "", "range": (0, 10), "search": (0, 11)},
        {"type": "bytes", "meaning": "", "range": (0, 10), "default": "11"},
        {"type": "boolean", "meaning": "", "values": ("0", "1", "2")},
        {"type": "choice", "meaning": "", "values": ("0",)},
        {"type": "choice", "meaning": "", "values": ("a", "b"), "default": "c"},
        {"type": "number", "meaning": "", "range": (0, 1)},
        {"type": "integer", "meaning": "", "range": (0, 1), "unit": "ms"},
    ],
)
def test_a_tunable_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"variable": "V", "space": {"t": wrong}}, Tunables)


def test_a_setting_of_something_else_is_not_a_setting():
    tunables = Tunables("CONF", {"a": Tunable("integer", "", range=(0, 9))}, "{name}:{value}", ",")
    assert tunables.settings({"CONF": "a:1"}) == {"a": "1"}
    assert tunables.settings({"CONF": "a:1,b:2"}) is None
    assert tunables.settings({"OTHER": "a:1"}) is None
