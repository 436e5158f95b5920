# SPDX-License-Identifier: MIT
"""Exact figures of a workload on an allocator: one run each, by name."""

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.run import exact, registry, replay

from tests.support import REPOSITORY

HOME = default_home()
KNOWN = registry.load(HOME)
GLIBC = registry.choose("glibc", KNOWN)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    workload = replay.prepare(
        str(REPOSITORY / "workloads" / "corpus" / "gs.tape"), HOME, tmp_path_factory.mktemp("exact")
    )
    return exact.Bench(workload, HOME, [GLIBC])


def test_figures_are_the_same_twice_except_faults(bench):
    names = [name for name in exact.FIGURES if name not in ("misses", "faults")]
    first = bench.figures(GLIBC, names)
    assert set(first) == set(names)
    assert first["rss-peak"] >= first["rss-mean"] > 0
    assert bench.figures(GLIBC, names) == first


def test_a_figure_that_is_not_known_is_named(bench):
    with pytest.raises(HeaptapeError, match="unknown figure 'rss': there are rss-peak"):
        bench.figures(GLIBC, ["rss"])


def test_a_pass_that_the_workload_can_not_make_is_an_error_of_one_line(bench):
    with pytest.raises(HeaptapeError, match="^glibc, misses pass: .*accesses"):
        bench.figures(GLIBC, ["misses"])


def test_an_allocator_that_fails_is_named(bench, tmp_path):
    broken = registry.Choice("broken", "default", tmp_path / "none.so", str(tmp_path / "none.so"), {})
    with pytest.raises(HeaptapeError, match="^broken, memory pass: "):
        bench.figures(broken, ["rss-peak"])
