# SPDX-License-Identifier: MIT
"""Who holds the memory, in the page of `heaptape report`."""

from collections.abc import Sequence

from heaptape.features.blame import views
from heaptape.features.blame.layers import chart
from heaptape.results.schema import Results
from heaptape.show.pages.sections import Section


def section(file: Results, order: Sequence[str]) -> Section | None:
    """None where there is no blame. The flame graph only where there are call stacks, and something is held."""
    view = views.of_report(file, order)
    if view is None:
        return None
    trees = views.trees_of(view.holders, "widest")
    holds = any(any(tree.weights) for tree in trees.values())
    grouping = view.groupings(view.holders[0])[0]
    return Section(
        title="Who holds the memory",
        sentences=views.sentences(view),
        chart=chart(file, order, grouping),
        about=f"RSS over progress, by {grouping} of the objects that hold it.",
        caption=f"By {grouping}: live bytes and what is held beside them. On top: memory that nothing lives in.",
        closed_title="Flame graph: what the call sites hold",
        closed=views.inline(views.rendered(trees, f"{file.name}: who holds its memory")) if holds else "",
    )
