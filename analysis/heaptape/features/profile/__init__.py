# SPDX-License-Identifier: MIT
"""What a program asks of an allocator. `heaptape.profile(path)` counts it; the module has what is in `data`."""

from importlib import import_module
from typing import Any

from heaptape.common.callable_module import make_callable


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """The command must not wait for pandas."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.data"), name)


make_callable(__name__, lambda *arguments: __getattr__("profile")(*arguments))
