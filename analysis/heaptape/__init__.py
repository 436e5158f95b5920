# SPDX-License-Identifier: MIT
"""heaptape: traces, workloads and results of memory allocators, as tables.

    trace = heaptape.open("redis.tape")         # trace.info, trace.events(), trace.frames(), trace.profile()
    work = heaptape.open_workload("redis.work")
    result = heaptape.results("redis.json")     # or a report; result.figures(), result.timelines()
    heaptape.compare(result)                    # what each allocator costs, with intervals
    heaptape.plots.memory_over_progress(axes, result.timelines(), "rss_anon_bytes")

docs/use/PYTHON.md is a page about it. `heaptape.compare` and `heaptape.profile` are modules, too, with more in them.

Imports are lazy: the command must not wait for numpy.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heaptape.common.version import __version__ as __version__

if TYPE_CHECKING:
    from heaptape.common.errors import FormatError, HeaptapeError
    from heaptape.passes import fragmentation
    from heaptape.results.comparing.compare import compared as compare
    from heaptape.results.model.time_model import in_words
    from heaptape.results.schema import Results, all_results, results
    from heaptape.show import figures as plots
    from heaptape.tape.trace import Trace
    from heaptape.tape.trace import open_trace as open  # noqa: A004
    from heaptape.tape.workload_format import read_workload as open_workload

_LAZY = {
    "open": ("heaptape.tape.trace", "open_trace"),
    "Trace": ("heaptape.tape.trace", "Trace"),
    "open_workload": ("heaptape.tape.workload_format", "read_workload"),
    "all_results": ("heaptape.results.schema", "all_results"),
    "Results": ("heaptape.results.schema", "Results"),
    "in_words": ("heaptape.results.model.time_model", "in_words"),
    "FormatError": ("heaptape.common.errors", "FormatError"),
    "HeaptapeError": ("heaptape.common.errors", "HeaptapeError"),
}
_MODULES = {
    "compare": "heaptape.compare",
    "fragmentation": "heaptape.passes.fragmentation",
    "plots": "heaptape.show.figures",
    "results": "heaptape.results",
    "tables": "heaptape.show.tables",
}
__all__ = [
    "FormatError", "HeaptapeError", "Results", "Trace", "all_results", "compare", "fragmentation",
    "in_words", "open", "open_workload", "plots", "results", "tables",
]  # fmt: skip


# In Debian's package, packages that Debian lacks are beside heaptape; the system's Python finds only heaptape, by a
# link.
_FOLDER = str(Path(__file__).resolve().parent.parent)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in (*_LAZY, *_MODULES) and _FOLDER not in sys.path:
        sys.path.append(_FOLDER)
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    from heaptape.features import having, named

    if name in having("__init__"):
        return named(name)
    raise AttributeError(f"module 'heaptape' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
