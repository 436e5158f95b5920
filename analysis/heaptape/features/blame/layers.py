# SPDX-License-Identifier: MIT
"""RSS over progress as layers of who holds it, made ready to draw."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from heaptape.common.tables import MIB
from heaptape.features.blame import data, holders
from heaptape.features.blame.data import NOBODY, UNHELD
from heaptape.results.schema import Results
from heaptape.show.drawing import EMPTY_COLOUR

# Colours of groups that hold memory, the largest first, and of all other groups together.
HOLDER_COLOURS = ("#0f4c9c", "#1b7f5c", "#a8458a", "#5aa9dd", "#b3541e", "#7d67b8", "#6f8f2f")
OTHERS_COLOUR = "#4a4a4d"
ALL_OTHERS, ALL_OTHERS_NUMBER = "all others", -9
LIVE, HELD = " (live)", " (held beside)"


def key_names(file: Results, frame: pd.DataFrame, largest: Sequence[int], letters: int) -> dict[int, str]:
    """Number -> name of the groups of `largest`, short enough for a key, as `heaptape blame` tells them apart. `frame`:
    one grouping's rows of `data.holding`.
    """
    groups = dict(zip(frame["number"], frame["group"]))
    found = next(iter(data.of_allocators(file).values()))
    names = [str(groups.get(number, f"#{number}")) for number in largest]
    return dict(zip(largest, holders.names_within(found, largest, names, letters)))


def holder_layers(rows: pd.DataFrame, largest: Mapping[int, str]) -> pd.DataFrame:
    """From one allocator's and one grouping's rows of `data.holding`: column position, then for each group in
    `largest` (number -> name), and for all other groups together, live bytes and bytes held beside them, then memory
    without a holder.
    """
    held = rows.assign(held=rows["rounding_bytes"] + rows["empty_bytes"])
    who = held["number"].where(held["number"].isin(largest) | (held["kind"] == UNHELD), ALL_OTHERS_NUMBER)
    sums = held.groupby(["position", who])[["live_bytes", "held"]].sum().unstack(fill_value=0)
    out: dict[str, np.ndarray] = {"position": sums.index.to_numpy()}
    nothing = np.zeros(len(sums))
    for number, named in (*largest.items(), (ALL_OTHERS_NUMBER, ALL_OTHERS)):
        name = _unlike(named, number, out)
        for figure, ending in (("live_bytes", LIVE), ("held", HELD)):
            out[name + ending] = sums[figure, number].to_numpy() if (figure, number) in sums.columns else nothing
    for number, (_, name) in NOBODY.items():
        out[name] = sums["held", number].to_numpy() if ("held", number) in sums.columns else nothing
    return pd.DataFrame(out)


def _unlike(name: str, number: int, taken: Mapping[str, np.ndarray]) -> str:
    """The name, with the group's number if it is taken: two sites may have one name."""
    return f"#{number} {name}" if name + LIVE in taken else name


def chart(file: Results, labels: Sequence[str], grouping: str, largest: int = 7) -> dict[str, Any]:
    """RSS over progress by who holds it: {allocator: {"x": ops, "layers": [[name, colour, MiB at each x]]}}; live bytes
    and those held beside them are one layer. Empty if no run has them.
    """
    frame = data.holding(file, grouping)
    found: dict[str, Any] = {}
    there = [label for label in labels if label in set(frame["allocator"])]
    top = key_names(file, frame, data.largest(frame, largest), 44) if there else {}
    for label in there:
        layers = holder_layers(frame[frame["allocator"] == label], top)
        found[label] = {"x": layers.pop("position").tolist(), "layers": _joined(layers)}
    return found


def _joined(layers: pd.DataFrame) -> list[list]:
    sums: dict[str, np.ndarray] = {}
    for column in layers.columns:
        name = column.removesuffix(LIVE).removesuffix(HELD)
        sums[name] = sums.get(name, 0) + layers[column].clip(lower=0).to_numpy(float)
    shades = [*HOLDER_COLOURS[: len(sums) - 4], OTHERS_COLOUR, *_UNHELD_COLOURS]
    drawn = [(name, shade, held / MIB) for (name, held), shade in zip(sums.items(), shades) if held.any()]
    return [[name, shade, held.round(2).tolist()] for name, shade, held in drawn]


_UNHELD_COLOURS = (EMPTY_COLOUR, "#b9b9b9", "#858585")
