# SPDX-License-Identifier: MIT
"""Who holds the memory of experiments, for `heaptape whatif`."""

from heaptape.common.tables import Table
from heaptape.features.blame import pass_table
from heaptape.results.schema import Results


def tables(file: Results, where: str) -> list[Table]:
    """Each experiment beside its original, at a position (docs/use/BLAME.md)."""
    return pass_table.tables(pass_table.experiments(file, where), where)
