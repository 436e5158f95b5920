# SPDX-License-Identifier: MIT
"""What sizes and victims of a recording cost at least, in bytes per event: python -m tests.bench.recording.entropy
TAPE... Recordings with --stacks also have the sizes given the call site.

The length of an adaptive code (prediction by partial matching, escape method C) of contexts of two, one and no earlier
symbols. A symbol is a call with its size, or a victim: how many acquires before the previous victim it was acquired.
"""

import sys

import numpy as np
import pandas as pd
from heaptape.tape.trace import open_trace

from tests.bench.harness import heading, row


def code_bits(symbols: pd.Series, contexts: list[pd.Series]) -> float:
    """The code's length. contexts: of each symbol, from the longest on; where a context has not had the symbol, the
    next one takes over.
    """
    bits = np.zeros(len(symbols))
    pending = np.ones(len(symbols), bool)
    for context in [*contexts, pd.Series(0, symbols.index)]:
        before = context.groupby(context).cumcount()
        same = symbols.groupby([context, symbols]).cumcount()
        new = (same == 0).astype(int)
        distinct = new.groupby(context).cumsum() - new
        known = pending & (same > 0)
        escapes = pending & (same == 0) & (before > 0)
        bits[known] -= np.log2((same / (before + distinct))[known])
        bits[escapes] -= np.log2((distinct / (before + distinct))[escapes])
        pending &= same == 0
    return float(bits.sum() + pending.sum() * np.log2(symbols.nunique()))


def codes(*columns: pd.Series) -> pd.Series:
    """A number for each combination."""
    return pd.DataFrame(dict(enumerate(columns))).groupby(list(range(len(columns))), dropna=False).ngroup()


def with_earlier(symbols: pd.Series) -> list[pd.Series]:
    one, two = symbols.shift(1, fill_value=-1), symbols.shift(2, fill_value=-1)
    return [codes(one, two), one]


def acquired_before(events: pd.DataFrame) -> pd.Series:
    """Of each release: the number of the acquire whose object it takes."""
    live: dict[int, int] = {}
    found = {}
    for number, taken, got in zip(
        events.index, events.released_address.fillna(0), events.acquired_address.fillna(0), strict=True
    ):
        if taken:
            found[number] = live.pop(taken, -1)
        if got:
            live[got] = number
    return pd.Series(found)


def figures(path: str) -> list[float]:
    with open_trace(path) as trace:
        events = pd.concat(trace.frames(), ignore_index=True)
    sizes = codes(events.call, events.request_bytes.fillna(0))
    victims = -acquired_before(events).diff().fillna(0).astype(int)
    costs = [code_bits(sizes, with_earlier(sizes)), code_bits(victims, with_earlier(victims))]
    if events["stack"].notna().any():
        site = events["stack"].fillna(0).astype(int)
        costs.append(code_bits(sizes, [codes(site, sizes.shift(1, fill_value=-1)), site]))
    return [cost / 8 / len(events) for cost in costs]


def main() -> None:
    heading("bytes per event", "sizes", "victims", "both", "sizes by call site")
    for path in sys.argv[1:]:
        sizes, victims, *by_site = (f"{value:.3f}" for value in figures(path))
        row(path, sizes, victims, f"{float(sizes) + float(victims):.3f}", *by_site)


if __name__ == "__main__":
    main()
