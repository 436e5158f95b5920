# SPDX-License-Identifier: MIT
"""Modules that can be called: `heaptape.compare(results)` is the short way to what the module `heaptape.compare` is
about, and the module stays one: `from heaptape.compare import relative`.

A function of that name in the package would be hidden as soon as anybody imports the module, as importing sets the
package's attribute; Python's way out is a module of a class of its own.
"""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any


def make_callable(name: str, function: Callable[..., Any]) -> None:
    """Calling the (imported) module of that name calls the function from now on."""

    @functools.wraps(function)
    def call(self: types.ModuleType, *arguments: object, **named: object) -> object:
        return function(*arguments, **named)

    sys.modules[name].__class__ = type("CallableModule", (types.ModuleType,), {"__call__": call})
