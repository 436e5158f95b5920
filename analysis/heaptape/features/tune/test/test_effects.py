# SPDX-License-Identifier: MIT
"""What each tunable changes, by figures that are planted: `heaptape allocators --check-tunables`."""

from pathlib import Path

import pytest
from heaptape.allocators.registry import Allocator
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.features.tune import trials
from heaptape.features.tune.test.planted import TUNABLES
from heaptape.features.tune.trials import FIGURES, Point, effects, silent
from hypothesis import given
from hypothesis import strategies as st

ALLOCATOR = Allocator(name="planted", library="planted.so", path=Path("/bin/true"), tunables=TUNABLES)
WORKLOADS = {"one": Path("one.tape"), "two": Path("two.tape")}
ENDS = {"a": ["64"], "b": ["1"], "mode": ["y", "z"]}  # but for the default
PERCENT = st.sampled_from([0, 0, 0, 7, -30])
CHANGES = st.fixed_dictionaries({name: st.dictionaries(st.sampled_from(FIGURES), st.tuples(PERCENT, PERCENT))
                                 for name in ENDS})  # fmt: skip


@given(CHANGES, st.sets(st.sampled_from(["", *ENDS])))
def test_each_tunable_has_its_largest_changes_or_its_error_and_one_that_changes_nothing_is_silent(planted, failing):
    """Spelling a default out changes a ten-thousandth; "" is the default itself, without which nothing is compared."""

    class Planted:
        def __init__(self, *given):
            pass

        def measure(self, wanted, jobs):
            for settings in reversed(wanted):
                (name, value) = next(iter(settings.items()), ("", ""))
                if name in failing and (not name or value in ENDS[name]):
                    yield Point(settings, error=f"fails with {name}")
                    continue
                moved = planted[name] if name and value in ENDS[name] else {}
                none = 1e6 + 100 * bool(name)
                yield Point(settings, {workload: {one: none + 1e4 * moved.get(one, (0, 0))[at] for one in FIGURES}
                                       for at, workload in enumerate(WORKLOADS)})  # fmt: skip

    with pytest.MonkeyPatch.context() as here:
        here.setattr(trials, "Trials", Planted)
        if "" in failing:
            with pytest.raises(HeaptapeError, match="fails with"):
                effects(ALLOCATOR, WORKLOADS, default_home(), 1)
            return
        found = effects(ALLOCATOR, WORKLOADS, default_home(), 1)
    assert [(one.tunable, one.value) for one in found] == [(name, end) for name in ENDS for end in ENDS[name]]
    for one in found:
        largest = {figure: max(zip(moved, WORKLOADS), key=lambda change: abs(change[0]))
                   for figure, moved in planted[one.tunable].items() if any(moved)}  # fmt: skip
        fails = one.tunable in failing
        assert bool(one.error) == fails
        assert one.changes == ({} if fails else {figure: (pytest.approx(percent, abs=0.02), workload)
                                                 for figure, (percent, workload) in largest.items()})  # fmt: skip
    assert silent(found) == [name for name in ENDS if name not in failing and not any(map(any, planted[name].values()))]
