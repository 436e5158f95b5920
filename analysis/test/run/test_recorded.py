# SPDX-License-Identifier: MIT
"""A replay on the recorded allocator has the settings that the recorded program's environment had."""

import pytest
from heaptape.advise.tried import today
from heaptape.allocators import registry
from heaptape.allocators.elf_files import build_id
from heaptape.common.home import default_home
from heaptape.results.recorded_on import short_version
from heaptape.run.recorded import as_recorded, recorded_on

KNOWN = registry.load(default_home())
ARENAS = {"MALLOC_ARENA_MAX": "2"}


def info(settings):
    return {"allocator": "libc.so.6", "settings": settings}


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({}, "glibc"),
        (ARENAS, "glibc:MALLOC_ARENA_MAX=2"),
        ({"MALLOC_CONF": "narenas:1", "SCUDO_OPTIONS": "x=1"}, "glibc"),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, "glibc:one-arena"),
        (ARENAS | {"GLIBC_TUNABLES": "glibc.malloc.mxfast=0"},
         "glibc:GLIBC_TUNABLES=glibc.malloc.mxfast=0 MALLOC_ARENA_MAX=2"),
    ],
)  # fmt: skip
def test_the_label_shows_the_settings_that_the_allocator_reads(settings, label):
    found = recorded_on(info(settings), KNOWN)
    assert found is not None
    assert found.label == label
    assert found.as_recorded
    assert found.environment == {
        name: settings[name] for name in settings.keys() & {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"}
    }


def test_all_variables_that_an_allocator_may_read_are_its_settings():
    settings = {"MIMALLOC_RESET_DELAY": "0", "MIMALLOC_PAGE_RESET": "1", "MALLOC_ARENA_MAX": "2"}
    for name, reads in (("mimalloc", ("MIMALLOC_RESET_DELAY", "MIMALLOC_PAGE_RESET")), ("tcmalloc", ())):
        assert KNOWN[name].settings_in(settings) == {one: settings[one] for one in reads}


def test_a_plain_name_means_as_recorded_and_default_means_without():
    recorded = recorded_on(info(ARENAS), KNOWN)
    names = ["glibc", "glibc:trim-at-once", "reference"]
    labels = [one.label for one in as_recorded(names, registry.choose_all(names, KNOWN), recorded)]
    assert labels == ["glibc:MALLOC_ARENA_MAX=2", "glibc:trim-at-once", "reference"]
    plain = ["glibc:default", "glibc:MALLOC_ARENA_MAX=2"]
    found = as_recorded(plain, registry.choose_all(plain, KNOWN), recorded)
    assert [(one.label, one.as_recorded) for one in found] == [("glibc", False), ("glibc:MALLOC_ARENA_MAX=2", True)]


def test_a_library_that_is_not_known_has_no_choice():
    assert recorded_on({"allocator": "libother.so", "settings": {}}, KNOWN) is None
    assert recorded_on({}, KNOWN) is None


def test_a_library_that_only_the_linker_knows_is_found_by_its_name_and_build_id():
    path = registry.files_of(["libm.so.6"], [])["libm.so.6"][0]
    about = {"allocator": "libm.so.6", "allocator_build_id": build_id(path)}
    found = recorded_on(about, KNOWN)
    assert found is not None
    assert found.path == path.resolve()
    assert found.as_recorded
    assert recorded_on(about | {"allocator_build_id": "00"}, KNOWN) is None
    assert recorded_on(about | {"allocator": f"../{path.name}"}, KNOWN) is None
    assert recorded_on(about | {"settings": {"LD_AUDIT": "/no.so"}}, KNOWN) is None


def test_an_allocator_that_was_linked_into_the_program_is_its_own():
    about = {"allocator": "program", "allocator_build_id": "00", "linked": "reference", "settings": ARENAS}
    assert recorded_on(about, KNOWN) is None  # of which version is not known
    found = recorded_on(about | {"linked": "glibc", "allocator_version": short_version(KNOWN["glibc"].version)}, KNOWN)
    assert found is not None
    assert (found.label, found.as_recorded) == ("glibc:MALLOC_ARENA_MAX=2", True)
    now, doubt = today(None, about | {"linked": "glibc", "allocator_version": "2.5"}, KNOWN)
    assert now.label == "glibc"
    assert "recorded on glibc 2.5, which is not on this machine" in doubt
