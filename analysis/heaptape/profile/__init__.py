# SPDX-License-Identifier: MIT
"""What a program asks of an allocator. `heaptape.profile(path)` counts it."""

from heaptape.common.callable_module import make_callable
from heaptape.profile.data import (
    CHAINS,
    LIFETIMES,
    PAIRS,
    SITES,
    SIZES,
    WINDOWS,
    Profile,
    large_share,
    profile,
    remote_share,
    sizes_for_share,
    swing,
    young_share,
)

__all__ = [
    "CHAINS", "LIFETIMES", "PAIRS", "SITES", "SIZES", "WINDOWS", "Profile", "large_share", "remote_share",
    "sizes_for_share", "swing", "young_share",
]  # fmt: skip

make_callable(__name__, profile)
