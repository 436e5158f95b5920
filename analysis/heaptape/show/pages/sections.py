# SPDX-License-Identifier: MIT
"""Sections that features add to a workload's part of the page: `section(file, order)` of their `report_section`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heaptape import features
from heaptape.results.schema import Results


@dataclass(frozen=True)
class Section:
    """`chart`: allocator -> {"x": ops, "layers": [[name, colour, MiB at each x]]}, and what it shows (`about`).
    `closed`: SVG text of a part that is closed at first; empty: none.
    """

    title: str
    sentences: list[str]
    chart: dict[str, Any]
    about: str
    caption: str
    closed_title: str = ""
    closed: str = ""


def sections(file: Results, order: Sequence[str]) -> list[Section]:
    """Those of all features that have one for this file."""
    made = (feature.section(file, order) for feature in features.modules("report_section"))
    return [one for one in made if one]
