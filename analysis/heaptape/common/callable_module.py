# SPDX-License-Identifier: MIT
"""Modules that can be called: `heaptape.compare(results)` calls the main function of the module `heaptape.compare`,
which can still be imported from: `from heaptape.compare import relative`.

A function of that name in the package would be hidden as soon as the module is imported, as an import sets the
package's attribute. Python's solution is a module with its own class.
"""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any


def make_callable(name: str, function: Callable[..., Any]) -> None:
    """Makes calls of the (imported) module `name` call the function."""

    @functools.wraps(function)
    def call(self: types.ModuleType, *arguments: object, **named: object) -> object:
        return function(*arguments, **named)

    sys.modules[name].__class__ = type("CallableModule", (types.ModuleType,), {"__call__": call})
