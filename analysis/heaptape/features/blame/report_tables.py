# SPDX-License-Identifier: MIT
"""The tables of `heaptape blame` in the page of `heaptape report`."""

from heaptape.common.tables import Table
from heaptape.features.blame import views
from heaptape.results.comparing.compare import allocator_order
from heaptape.results.schema import Results


def tables(file: Results) -> list[Table]:
    """None where there is no blame."""
    view = views.of_report(file, allocator_order([file]))
    return [table for kind in views.tables(view).values() for table in kind] if view else []
