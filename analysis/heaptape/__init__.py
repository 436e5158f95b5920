"""heaptape: traces, workloads and results of memory allocators, as tables.

    trace = heaptape.open("redis.tape")         # trace.info, trace.events(), trace.samples()
    work = heaptape.open_workload("redis.work")
    result = heaptape.results("redis.json")     # then heaptape.compare, heaptape.plots

Imports are lazy: the command must not wait for numpy.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "open": ("heaptape.tape_format", "open_trace"),
    "open_workload": ("heaptape.workload_format", "read_workload"),
    "results": ("heaptape.results_file", "results"),
    "FormatError": ("heaptape.errors", "FormatError"),
    "HeaptapeError": ("heaptape.errors", "HeaptapeError"),
}
_MODULES = ("compare", "fragmentation", "memory_figures", "plots", "tables")


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    if name in _MODULES:
        return importlib.import_module(f"heaptape.{name}")
    raise AttributeError(f"module 'heaptape' has no attribute '{name}'")
