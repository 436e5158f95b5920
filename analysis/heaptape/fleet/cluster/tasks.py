# SPDX-License-Identifier: MIT
"""What the processes of a fleet may run: only the tasks of a table, each with one text as argument.

Dask sends functions as pickles, and unpickling alone can run anything. So the scheduler, the workers and the submitting
command use an unpickler that accepts a few names (`only_tasks`) and refuses all others.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from types import SimpleNamespace

# Modules and names in Dask's own messages about such a task.
NAMES = {
    (__name__, "run"),
    ("dask._task_spec", "Task"),
    ("dask._expr", "LLGExpr"),
    ("dask._expr", "Expr._reconstruct"),
    ("builtins", "str"),
    ("builtins", "bytes"),
}

_table: Mapping[str, Callable[[str], str]] = {}


class RefusedError(pickle.UnpicklingError):
    """The request is not a task of the table."""


class _OnlyNames(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in NAMES:
            raise RefusedError(f"this process runs nothing but heaptape's tasks: {module}.{name} is refused")
        return super().find_class(module, name)


def only_tasks() -> None:
    """From now on this process unpickles only tasks of the table from Dask's messages."""
    from distributed.protocol import pickle as of_dask

    def loads(data: bytes, *, buffers: tuple = ()) -> object:
        return _OnlyNames(io.BytesIO(data), buffers=buffers or None).load()

    kept = {name: getattr(pickle, name) for name in dir(pickle)}
    of_dask.pickle = SimpleNamespace(**kept | {"loads": loads})  # type: ignore[assignment]


def runs(table: Mapping[str, Callable[[str], str]]) -> None:
    """Sets the table of tasks: kind -> the function that is called with the text."""
    global _table
    _table = table


def run(kind: str, text: str) -> str:
    """The one function that workers run. Raises RefusedError for a task that is not in the table."""
    if kind not in _table:
        raise RefusedError(f"no such task: {kind}")
    return _table[kind](text)
