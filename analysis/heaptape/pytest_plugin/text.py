# SPDX-License-Identifier: MIT
"""The plugin's output."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from heaptape.common.quantities import size
from heaptape.pytest_plugin.lines import Lines
from heaptape.pytest_plugin.spans import Site, Span

FRAMES = 8
WHAT = {"peak_bytes": "lived at the peak", "growth_bytes": "was left"}


def sites(exceeded: Iterable[str], span: Span, lines: Lines | None) -> Iterator[str]:
    """Where the objects beyond each limit were acquired. `lines`: by Python lines, else by C call stacks."""
    how = "by the Python line that was running, in a second run of the test" if lines else "by C call stack"
    for name, found in (("peak_bytes", span.peak_sites), ("growth_bytes", span.growth_sites)):
        if name in exceeded:
            total = getattr(span, name)
            largest = _largest(found, total)
            yield f"{WHAT[name]}, {how} ({size(total)} there):"
            yield from _by_line(largest, lines) if lines else _by_stack(largest)


def _largest(found: Sequence[Site], total_bytes: int) -> Iterator[Site]:
    """The sites with at least 1 % of the bytes: smaller ones are usually pytest's."""
    return (site for site in found if site.size_bytes * 100 >= total_bytes)


def _by_line(found: Iterable[Site], lines: Lines) -> Iterator[str]:
    for site in found:
        where, line = lines.where(site.place) if site.place else ("elsewhere", "")
        yield f"  {size(site.size_bytes):>12} in {site.objects:>7,} objects  {where}  {line}".rstrip()


def _by_stack(found: Iterable[Site]) -> Iterator[str]:
    for site in found:
        yield f"  {size(site.size_bytes):>12} in {site.objects:>7,} objects"
        yield from (f"      {frame}" for frame in site.frames[:FRAMES])


def table(tests: Sequence[dict[str, Any]], count: int) -> Iterator[str]:
    most = sorted(tests, key=lambda test: -test["peak_bytes"])[:count]
    if most:
        yield f"{'peak':>12}  {'growth':>12}  {'allocations':>11}  test"
    for test in most:
        peak, growth = size(test["peak_bytes"]), size(test["growth_bytes"])
        yield f"{peak:>12}  {growth:>12}  {test['allocations']:>11,}  {test['name']}"
    if len(tests) > count:
        yield f"{len(tests) - count:,} more: --heaptape-top N"


def unmeasured(tests: Iterable[tuple[str, str]]) -> Iterator[str]:
    """One line for each reason, with the names."""
    for reason, names in groupby(sorted(tests, key=lambda test: test[1]), key=lambda test: test[1]):
        listed = [name for name, _ in names]
        yield f"not measured: {reason}: {listed[0]}" + (f" and {len(listed) - 1} more" if len(listed) > 1 else "")
