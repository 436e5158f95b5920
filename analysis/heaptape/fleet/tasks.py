# SPDX-License-Identifier: MIT
"""What the processes of a fleet may be asked to run: the tasks of the table, each given one text, and nothing else.

Dask sends functions as pickles, and unpickling alone can run anything. So the scheduler, the workers and the command
that submits unpickle by an unpickler that knows a few names (`only_tasks`), and refuses all others.
"""

import importlib
import io
import pickle
from collections.abc import Callable
from types import SimpleNamespace

# kind -> the function that does it, in a module of this package; it is given its text and the worker (execute.Here)
TASKS = {"cells": "heaptape.fleet.dispatch:run_cells", "ingest": "heaptape.fleet.ingest:run_batch"}
# Modules and names that Dask's own messages about such a task are made of.
NAMES = {
    ("heaptape.fleet.tasks", "run"),
    ("dask._task_spec", "Task"),
    ("dask._expr", "LLGExpr"),
    ("dask._expr", "Expr._reconstruct"),
    ("builtins", "str"),
    ("builtins", "bytes"),
}

_here: object = None


class RefusedError(pickle.UnpicklingError):
    """Something else than a task of the table."""


class _OnlyNames(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in NAMES:
            raise RefusedError(f"this process runs nothing but heaptape's tasks: {module}.{name} is refused")
        return super().find_class(module, name)


def only_tasks() -> None:
    """From now on this process unpickles nothing but tasks of the table out of Dask's messages."""
    from distributed.protocol import pickle as of_dask

    def loads(data: bytes, *, buffers: tuple = ()) -> object:
        return _OnlyNames(io.BytesIO(data), buffers=buffers or None).load()

    kept = {name: getattr(pickle, name) for name in dir(pickle)}
    of_dask.pickle = SimpleNamespace(**kept | {"loads": loads})  # type: ignore[assignment]


def runs_here(here: object) -> None:
    """Whom tasks are given to in this process."""
    global _here
    _here = here


def run(kind: str, text: str) -> str:
    """The one function that workers run. Raises RefusedError for a task that is not in the table."""
    if kind not in TASKS or _here is None:
        raise RefusedError(f"no such task: {kind}")
    module, _, name = TASKS[kind].partition(":")
    function: Callable[[str, object], str] = getattr(importlib.import_module(module), name)
    return function(text, _here)
