# SPDX-License-Identifier: MIT
"""What a program asks of an allocator. `heaptape.profile(path)` counts it; the module has what is in `data`.

Imports are lazy: the command must not wait for pandas.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heaptape.common.callable_module import make_callable

if TYPE_CHECKING:
    from heaptape.common.home import Home
    from heaptape.features.profile.data import Profile


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.data"), name)


def _count(path: str | Path, home: "Home | None" = None) -> "Profile":
    from heaptape.features.profile.data import profile

    return profile(path, home)


make_callable(__name__, _count)
