# SPDX-License-Identifier: MIT
"""Which candidates are tried, and which allocator a program is compared with."""

from types import SimpleNamespace

import pytest
from heaptape.advise import tried as candidates
from heaptape.common.home import default_home
from heaptape.run import registry

KNOWN = registry.load(default_home())


def tried(monkeypatch, threads, installed=()):
    found = [SimpleNamespace(record=SimpleNamespace(label=label)) for label in installed]
    monkeypatch.setattr(candidates.installed, "find_all", lambda folder: found)
    monkeypatch.setattr(candidates, "choose_all", lambda names, known: list(names))
    return candidates.candidates([], KNOWN, threads)


def test_every_allocator_found_is_tried_with_its_main_variants_and_those_installed(monkeypatch):
    names = tried(monkeypatch, 1, ["x@1.0"])
    assert {"glibc", "glibc:trim-at-once", "x@1.0"} <= set(names)
    assert "glibc:one-arena" not in names
    assert len(names) == len(set(names))


def test_variants_for_threads_are_tried_where_there_are_several(monkeypatch):
    more = set(tried(monkeypatch, 2)) - set(tried(monkeypatch, 1))
    assert "glibc:one-arena" in more
    assert all(KNOWN[name.partition(":")[0]].variants[name.partition(":")[2]].advise == "threads" for name in more)


@pytest.mark.parametrize(("library", "label"), [("libc.so.6", "glibc"), ("libjemalloc.so.2", "jemalloc")])
def test_a_program_is_compared_with_what_it_was_recorded_on(library, label):
    choice, doubt = candidates.today(None, {"allocator": library}, KNOWN)
    assert (choice.label, doubt) == (label, "")


@pytest.mark.parametrize("info", [{}, {"allocator": "own"}])
def test_what_is_assumed_is_reported(info):
    choice, doubt = candidates.today(None, info, KNOWN)
    assert choice.label == "glibc"
    assert info.get("allocator", "does not name its allocator") in doubt
