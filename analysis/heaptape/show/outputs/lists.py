# SPDX-License-Identifier: MIT
"""`heaptape allocators` and `workloads`: the allocators and workloads of this machine."""

from typing import Any

from heaptape.show.outputs.output import MISSING, Missing, Output, Part


class Allocator(Part):
    """An allocator of the registry. `path`, `version`: null if it is not found; `how_to_get`: how to install it."""

    name: str
    found: bool
    path: str | None
    version: str | None
    summary: str
    variants: list[str]
    how_to_get: str


Installed = dict[str, Any]  # the record of a build (allocators/README.md), with `path` and `verdict`


class Allocators(Output):
    """`heaptape allocators --json`."""

    allocators: list[Allocator]
    installed: list[Installed]


class Candidate(Part):
    """An allocator that can be installed."""

    name: str
    versions: list[str]
    source: str
    licence: str
    missing: str | None


class Candidates(Output):
    """`heaptape allocators list --json`."""

    installed: list[Installed]
    candidates: list[Candidate]


class Variant(Part):
    """Settings of an allocator under a name."""

    name: str
    environment: dict[str, str]
    summary: str
    advise: str
    needs: str


class Variants(Output):
    """`heaptape allocators --variants NAME --json`. `tunables`: names."""

    allocator: str
    variants: list[Variant]
    tunables: list[str]
    other_variants: list[str]


class Tunable(Part):
    """A setting: its values or the range of its numbers; `default` "": depends on machine or program."""

    name: str
    type: str
    meaning: str
    range: list[int | float] | None
    search: list[int | float] | None
    scale: str
    values: list[str]
    default: str
    tuned: bool


class Tunables(Output):
    """`heaptape allocators --tunables NAME --json`."""

    allocator: str
    tunables: list[Tunable]


class Workload(Part):
    """A synthetic pattern, a recipe of a program ("app"), or a suite. `missing`: why it can't run here."""

    name: str
    kind: str
    summary: str
    path: str
    can_run: bool | Missing = MISSING
    missing: str | None | Missing = MISSING
    stands_for: str | None | Missing = MISSING
    packages: list[str] | Missing = MISSING
    known: str | None | Missing = MISSING
    source: str | Missing = MISSING
    workloads: list[str] | Missing = MISSING
    allocators: list[str] | Missing = MISSING


class Workloads(Output):
    """`heaptape workloads --json`."""

    workloads: list[Workload]
