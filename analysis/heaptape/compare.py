# SPDX-License-Identifier: MIT
"""`heaptape.compare(results, ...)`, also a module: `from heaptape.compare import relative`. The implementation is in
heaptape.results.comparing.compare.
"""

from heaptape.common.callable_module import make_callable
from heaptape.results.comparing.compare import (
    MAIN_CALLS,
    absolute,
    allocator_order,
    choose_baseline,
    compared,
    long_table,
    relative,
    repetitions,
)

__all__ = [
    "MAIN_CALLS", "absolute", "allocator_order", "choose_baseline", "compared", "long_table", "relative", "repetitions",
]  # fmt: skip

make_callable(__name__, compared)
