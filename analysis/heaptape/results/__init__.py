# SPDX-License-Identifier: MIT
"""Results files and their figures as DataFrames. `heaptape.results(path)` reads one.

Imports are lazy: a replay needs some modules of this folder, and must not wait for pandas.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from heaptape.common.callable_module import make_callable

if TYPE_CHECKING:
    from heaptape.results.schema import Results, all_results, call_details, figures

__all__ = ["Results", "all_results", "call_details", "figures"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in __all__:
        raise AttributeError(f"module 'heaptape.results' has no attribute '{name}'")
    from heaptape.results import schema

    return getattr(schema, name)


def _read(path: str | Path) -> "Results":
    from heaptape.results.schema import results

    return results(path)


make_callable(__name__, _read)
