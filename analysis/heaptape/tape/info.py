# SPDX-License-Identifier: MIT
"""The types of what a trace's or a workload's info says: files of strangers are checked before a key is read.

Every key may be missing or null, and unknown ones are allowed (core/trace/FORMAT.md, core/workload/WORKLOAD.md).
"""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from heaptape.common.errors import FormatError

Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Pair = Annotated[list[Finite], msgspec.Meta(min_length=2)]
Triple = Annotated[list[Finite], msgspec.Meta(min_length=3)]
Quadruple = Annotated[list[Finite], msgspec.Meta(min_length=4)]
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # others are no figure of any machine
Count = Whole | None
Number = float | None
Text = str | None
Flag = bool | None
Counts = dict[str, Number] | None
Variable = Annotated[str, msgspec.Meta(pattern=r"^[^=\x00]+$")]
Value = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]


class Recorded(msgspec.Struct, kw_only=True):
    """What results keep of it. `request_sizes`: rows of largest size in bytes, calls, bytes. `recorded`: rows of ops
    done, RssAnon, VmSize while it was recorded. `settings`: variables of the recorded program's environment that set
    its allocator up. `transparent_huge_pages`: as Machine's, of the recorded program. `witness`: what compiling the
    trace found. `lacks`: what the trace does not have.
    """

    program: Text = None
    source: Text = None
    allocator: Text = None
    linked: Text = None
    allocator_version: Text = None
    allocator_build_id: Text = None
    settings: dict[Variable, Value] | None = None
    transparent_huge_pages: Text = None
    quota_processors: Number = None
    throttled_ns: Number = None
    calls: Counts = None
    request_sizes: list[Triple] | None = None
    recorded: list[Pair] | None = None
    witness: dict[str, Any] | None = None
    lacks: list[str] | None = None


class Clock(msgspec.Struct):
    hz: Finite | None = None
    origin_stamp: Count = None
    origin_unix_ns: Count = None


class TraceInfo(Recorded, kw_only=True):
    clock: Clock
    call_ns: Finite | None = None
    pid: Count = None
    libraries: list[str] | None = None


class TraceFooter(msgspec.Struct):
    clock_hz: Finite | None = None
    end: Text = None
    final: dict[str, Finite | None] | None = None


class WorkloadInfo(Recorded, kw_only=True):
    name: Text = None
    libraries: list[str] | None = None
    recorded: list[Triple] | None = None
    cpu_ns: Finite | None = None
    asleep: Finite | None = None
    touched_estimated_bytes: Finite | None = None
    touched_parts: Flag = None
    program_clock: list[Pair] | None = None


def checked(info: Mapping, shape: type[msgspec.Struct], path: str, offset: int | None) -> dict:
    """The info without keys that are null. Raises FormatError where a key has another type than `shape` says. `offset`:
    of the info in the file.
    """
    try:
        msgspec.convert(info, shape)
    except msgspec.ValidationError as error:
        raise FormatError(path, offset, f"the info: {error}") from error
    return {key: value for key, value in info.items() if value is not None}
