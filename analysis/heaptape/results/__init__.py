# SPDX-License-Identifier: MIT
"""Results files, and what they hold: DataFrames, no text. `heaptape.results(path)` reads one."""

from heaptape.common.callable_module import make_callable
from heaptape.results.schema import Results, all_results, call_details, figures, results

__all__ = ["Results", "all_results", "call_details", "figures"]

make_callable(__name__, results)
