# SPDX-License-Identifier: MIT
"""Which allocators with which settings are tried for a program, and which of them it runs on today."""

from collections.abc import Mapping, Sequence

from heaptape.common.errors import HeaptapeError
from heaptape.run import installed
from heaptape.run.registry import Allocator, Choice, choose, choose_all

C_LIBRARY = "glibc"


def candidates(names: Sequence[str], registry: Mapping[str, Allocator], threads: int) -> list[Choice]:
    """The named candidates; else each allocator that is found and not for study only, alone and with the variants that
    the registry marks for advice, and each installed candidate alone. Raises as `choose_all`.
    """
    known = dict(registry)
    if names:
        return choose_all(names, known)
    found = []
    for name, allocator in known.items():
        if not allocator.found or allocator.by_name:
            continue
        wanted = ("always", "threads") if threads > 1 else ("always",)
        found += [name, *(f"{name}:{key}" for key, one in allocator.variants.items() if one.advise in wanted)]
    found += [one.record.label for one in installed.find_all(installed.root())]
    return choose_all(found, known)


def recorded_on(info: Mapping, registry: Mapping[str, Allocator]) -> Choice | None:
    """The allocator that the recording names as its own. `info`: of the workload. None: it names none, or a library
    that is not an allocator of the registry here.
    """
    library = info.get("allocator")
    for allocator in registry.values():
        if (
            library
            and allocator.path
            and library in (allocator.library, allocator.path.name, allocator.path.resolve().name)
        ):
            return choose(allocator.name, dict(registry))
    return None


def today(name: str | None, info: Mapping, registry: Mapping[str, Allocator]) -> tuple[Choice, str]:
    """The allocator to compare with, and why it is only assumed (else empty): `name` if one is given, else the
    allocator that the program was recorded on, else the C library's.
    """
    if name is not None:
        return choose(name, dict(registry)), ""
    recorded = recorded_on(info, registry)
    if recorded:
        return recorded, ""
    library = info.get("allocator")
    why = f"its own allocator ({library}) is not known here" if library else "the recording does not name its allocator"
    if C_LIBRARY not in registry:
        raise HeaptapeError(f"{why}: name one by --baseline")
    return choose(C_LIBRARY, dict(registry)), why
