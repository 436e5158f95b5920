# SPDX-License-Identifier: MIT
"""Whether a library is the one that served malloc while a program was recorded, by version and build id."""

import re
from pathlib import Path

from heaptape.results.structs import Column, Workload

HUGE_PAGES = {"always": "wherever they fit", "madvise": "on request", "never": "never"}


def short_version(version: str | None) -> str:
    """The upstream version of a package's.

    >>> [short_version(one) for one in ("libc6 2.36-9+deb12u14", "libmimalloc2.0 2.0.9+ds-2", "5.3.0", None)]
    ['2.36', '2.0.9', '5.3.0', '']
    """
    word = (version or "").split()[-1:]
    found = re.match(r"[0-9]+(\.[0-9]+){0,2}", word[0]) if word else None
    return found[0] if found else ""


def is_other(workload: Workload, version: str | None, build_id: str | None) -> bool:
    """Is a library with this version and build id, and the file name of the recording's, nevertheless another one? Not
    known, as in recordings that name neither: False. Builds of one version of glibc have the same malloc.
    """
    same = bool(build_id) and build_id == workload.allocator_build_id
    here = short_version(version)
    if workload.allocator_version and here:
        return not same and workload.allocator_version != here
    return not same and bool(build_id and workload.allocator_build_id)


def huge_pages_note(recorded: str | None, here: str | None) -> str:
    """That the kernel gave the recorded program huge pages otherwise than it does here; empty: it did not, or it is not
    known. Both as `Machine.transparent_huge_pages`.
    """
    if recorded == here or recorded not in HUGE_PAGES or here not in HUGE_PAGES:
        return ""
    given = f"{HUGE_PAGES[recorded]}, and gives them {HUGE_PAGES[here]} here"
    return f"The kernel gave the recorded program huge pages {given}: memory and page faults are those of this machine."


def recorded_column(workload: Workload, columns: list[Column] | None) -> Column | None:
    """The allocator, with the recorded settings, that the program was recorded on. None: it is not among them."""
    if workload.recorded_on:
        return next((one for one in columns or [] if one.label == workload.recorded_on), None)
    for one in columns or []:
        if one.variant not in (None, "", "default") or not one.path or Path(one.path).name != workload.allocator:
            continue
        if not is_other(workload, one.version, one.build_id):
            return one
    return None
