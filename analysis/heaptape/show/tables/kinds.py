# SPDX-License-Identifier: MIT
"""The tables that `heaptape compare --table NAME` can print, each as a DataFrame and as tables for people."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from heaptape import passes
from heaptape.common.errors import HeaptapeError
from heaptape.common.tables import Table
from heaptape.results import replay_errors as fidelity
from heaptape.results.comparing import variants, verdicts
from heaptape.results.comparing.compare import allocator_order
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.variants import Corners
from heaptape.results.model import time_model
from heaptape.results.model.time_model import prediction
from heaptape.results.schema import Results
from heaptape.show.tables import corner_tables, published, time_table
from heaptape.show.tables import views as table_views
from heaptape.show.tables.usual import WITHHELD


@dataclass(frozen=True)
class Question:
    """The results and options of a table. `tunable` empty: the one that was swept."""

    files: Sequence[Results]
    baseline: str
    corners: Corners | None = None
    tunable: str = ""
    method: Method = "t"

    @property
    def variants(self) -> dict[str, str]:
        """The variants that the RSS overhead table shows: the four corners, or the baseline and then the others."""
        if self.corners:
            return self.corners.labels
        others = [label for label in allocator_order(self.files) if label != self.baseline]
        return {label: label for label in [self.baseline, *others]}

    @cached_property
    def predicted(self) -> pd.DataFrame:
        """`time_model.prediction`, kept, as two tables and the sentences need it."""
        return prediction(self.files, self.baseline)

    @property
    def time_sentences(self) -> list[str]:
        return time_model.sentences(self.predicted, self.files, self.baseline)

    @property
    def four(self) -> Corners:
        """The corners. Raises HeaptapeError if none were named."""
        if self.corners is None:
            raise HeaptapeError("table 'corners' needs --corners NEITHER,A,B,BOTH")
        return self.corners


def _error_of(files: Sequence[Results]) -> verdicts.ErrorOf:
    """The measured error of replaying, the larger of the two allocators', for figures that are withheld within it; 0
    if these are not replays.
    """
    withheld = WITHHELD if all(file.is_replay for file in files) else ()
    return lambda figure, a, b: fidelity.errors_of([figure], [a, b]).get(figure, 0.0) if figure in withheld else 0.0


@dataclass(frozen=True)
class Kind:
    """A table: its DataFrame, and that as tables for people."""

    frame: Callable[[Question], pd.DataFrame]
    view: Callable[[pd.DataFrame, Question], list[Table]]


def _overhead(q: Question) -> list[Table]:
    return corner_tables.overhead_tables(corner_tables.rss_overhead(q.files, q.variants), q.variants, by_row=True)


def _of_pass(name: str) -> Kind:
    return Kind(
        lambda q: passes.table(name).frame(q.files, q.baseline),
        lambda frame, q: passes.table(name).view(frame, q.baseline),
    )


KINDS: dict[str, Kind] = {
    "time": Kind(
        lambda q: time_table.frame(q.predicted), lambda frame, q: time_table.tables(frame, q.baseline, q.time_sentences)
    ),
    "corners": Kind(
        lambda q: corner_tables.corner_matrix(q.files, q.four, q.method),
        lambda frame, q: corner_tables.matrix_tables(frame, q.four),
    ),
    "published": Kind(
        lambda q: published.frame(q.files, q.baseline, q.method),
        lambda frame, q: [
            *published.tables(frame, q.baseline, published.unit_of(q.files)),
            *(corner_tables.corner_tables(q.files, q.corners, q.method) if q.corners else _overhead(q)),
        ],
    ),
    "overhead": Kind(
        lambda q: corner_tables.rss_overhead(q.files, q.variants),
        lambda frame, q: corner_tables.overhead_tables(frame, q.variants),
    ),
    "sweep": Kind(
        lambda q: variants.sweep(q.files, variants.choose_tunable(q.files, q.tunable or None), method=q.method),
        lambda frame, q: table_views.sweep_tables(frame),
    ),
    "verdict": Kind(
        lambda q: verdicts.verdicts(q.files, q.baseline, method=q.method, error_of=_error_of(q.files)),
        lambda frame, q: [
            *time_table.words(q.time_sentences),
            *table_views.verdict_tables(frame),
            *passes.words(q.files),
        ],
    ),
} | {name: _of_pass(name) for name in passes.TABLES}
