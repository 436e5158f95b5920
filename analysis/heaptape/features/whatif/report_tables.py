# SPDX-License-Identifier: MIT
"""The tables of experiments in the page of `heaptape report`."""

from heaptape.common.tables import Table
from heaptape.features.whatif.tables import whatif_tables
from heaptape.results.schema import Results


def tables(file: Results) -> list[Table]:
    """None where the results have no experiment."""
    return whatif_tables(file) if file.experiment_labels else []
