# SPDX-License-Identifier: MIT
"""What heaptape-machine prints: the costs of a machine, as far as the model of time needs them. Times in ns."""

from typing import Annotated

import msgspec


class Quantiles(msgspec.Struct):
    """Of the samples of one time."""

    quarter: float
    median: float
    three_quarters: float


class Chains(msgspec.Struct):
    """Loads that wait for one another, and that do not."""

    dependent_ns: Quantiles
    independent_ns: Quantiles


class WorkingSet(Chains, kw_only=True):
    """Loads over so many bytes; `near`: within few OS pages at a time; `stream`: in order of address."""

    bytes: int
    stream_ns: Quantiles
    near_dependent_ns: Quantiles
    near_independent_ns: Quantiles
    huge_pages: bool = True


class OsPageSet(msgspec.Struct):
    """Loads of one line per OS page, and of as many lines side by side."""

    os_pages: int
    one_per_os_page: Chains
    side_by_side: Chains


class Code(msgspec.Struct):
    """A kind of code."""

    instruction_ns: Quantiles


class Codes(msgspec.Struct):
    """The kinds of code."""

    arithmetic: Code
    interpreter: Code
    allocator: Code
    cycle_ns: Quantiles | None = None


class Kernel(msgspec.Struct):
    """Calls and faults of OS pages."""

    first_touch_ns: Quantiles
    unmapped_page_ns: Quantiles
    getppid_ns: Quantiles
    mmap_ns: Quantiles
    munmap_ns: Quantiles
    mremap_ns: Quantiles
    madvise_ns: Quantiles
    brk_ns: Quantiles
    copied_page_ns: Quantiles | None = None
    huge_touch_ns: Quantiles | None = None


class StringCosts(msgspec.Struct):
    """A repeated string instruction: of one line, and each further byte."""

    line_ns: Quantiles
    byte_ns: Quantiles


class Strings(msgspec.Struct):
    """rep stos and rep movs."""

    fill: StringCosts
    copy: StringCosts


class Loading(msgspec.Struct):
    """Loading a library again, and when it is in no cache; its page faults and system calls."""

    warm_ns: Quantiles
    cold_ns: Quantiles
    mapping_warm_ns: Quantiles
    mapping_cold_ns: Quantiles
    faults: float
    calls: float


class CacheSize(msgspec.Struct):
    """A cache of the machine."""

    bytes: int
    ways: int


class TlbSize(msgspec.Struct):
    """A TLB of the machine."""

    entries: int
    ways: int


class Sizes(msgspec.Struct):
    """The machine's caches and TLBs; empty: not known."""

    caches: list[CacheSize] = []
    tlbs: list[TlbSize] = []


class Described(msgspec.Struct, kw_only=True):
    """The machine of a measurement."""

    cpu: str | None = None
    geometry: Sizes | None = None


class Costs(Described, kw_only=True):
    """One measurement. What an earlier version did not measure is None."""

    code: Codes
    kernel: Kernel
    working_sets: Annotated[list[WorkingSet], msgspec.Meta(min_length=1)]
    os_page_sets: Annotated[list[OsPageSet], msgspec.Meta(min_length=1)]
    strings: Strings | None = None
    loading: Loading | None = None
