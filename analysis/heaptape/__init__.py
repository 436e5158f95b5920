"""heaptape: traces, workloads and results of memory allocators, as tables.

    trace = heaptape.open("redis.tape")         # trace.info, trace.events(), trace.frames(), trace.profile()
    work = heaptape.open_workload("redis.work")
    result = heaptape.results("redis.json")     # or a report; result.figures(), result.timelines()
    heaptape.compare(result)                    # what each allocator costs, with intervals
    heaptape.plots.memory_over_progress(axes, result.timelines(), "rss_anon_bytes")

docs/PYTHON.md is a page about it. `heaptape.compare` and `heaptape.profile` are modules, too, with more in them.

Imports are lazy: the command must not wait for numpy.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heaptape import fragmentation, memory_figures, plots, tables
    from heaptape.compare import compared as compare
    from heaptape.errors import FormatError, HeaptapeError
    from heaptape.profile import profile
    from heaptape.results_file import Results, all_results, results
    from heaptape.summary import in_words
    from heaptape.tape_format import Trace
    from heaptape.tape_format import open_trace as open  # noqa: A004
    from heaptape.workload_format import read_workload as open_workload

__version__ = "0.1.0"

_LAZY = {
    "open": ("heaptape.tape_format", "open_trace"),
    "Trace": ("heaptape.tape_format", "Trace"),
    "open_workload": ("heaptape.workload_format", "read_workload"),
    "results": ("heaptape.results_file", "results"),
    "all_results": ("heaptape.results_file", "all_results"),
    "Results": ("heaptape.results_file", "Results"),
    "in_words": ("heaptape.summary", "in_words"),
    "FormatError": ("heaptape.errors", "FormatError"),
    "HeaptapeError": ("heaptape.errors", "HeaptapeError"),
}
_MODULES = ("compare", "fragmentation", "memory_figures", "plots", "profile", "tables")
__all__ = [
    "FormatError", "HeaptapeError", "Results", "Trace", "all_results", "compare", "fragmentation", "in_words",
    "memory_figures", "open", "open_workload", "plots", "profile", "results", "tables",
]  # fmt: skip


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    if name in _MODULES:
        return importlib.import_module(f"heaptape.{name}")
    raise AttributeError(f"module 'heaptape' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
