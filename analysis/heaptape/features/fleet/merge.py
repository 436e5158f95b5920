# SPDX-License-Identifier: MIT
"""Copies one store into another. Files that are in both stay as they are; every file is checked before it is copied."""

import hashlib
from pathlib import Path

import msgspec

from heaptape.features.fleet import dataset
from heaptape.features.fleet.store import Store

BY_HASH = ("workloads", "libraries")  # files whose names are their hashes; .json beside them is sealed
SEALED = ("workloads", "sources", "machines", "plans", "failures")


class Merged(msgspec.Struct):
    """How many cells, and other files, were copied; which were refused as damaged."""

    cells: int = 0
    others: int = 0
    damaged: list[str] = []


def merge(source: Store, into: Store) -> Merged:
    """Merges. A block is copied as a whole or not at all, as its cells were measured together; of the dataset, traces
    that `into` lacks are copied. Raises StoreError.
    """
    merged = Merged()
    for folder in dict.fromkeys([*BY_HASH, *SEALED]):
        there = set(into.files.names(folder))
        for name in source.files.names(folder):
            if name not in there:
                _take(source, into, name, merged)
    _cells(source, into, merged)
    taken, damaged = dataset.copy_missing(source, into)
    merged.others += taken
    merged.damaged += damaged
    return merged


def _take(source: Store, into: Store, name: str, merged: Merged) -> None:
    path = Path(name)
    if path.suffix == ".json":
        value = source.get(name, dict)
        if value is None:
            merged.damaged.append(name)
            return
        into.put(name, value)
    else:
        data = source.files.read(name) or b""
        if hashlib.sha256(data).hexdigest() != path.stem:
            source.set_aside(name, "has another hash than its name")
            merged.damaged.append(name)
            return
        into.files.write(name, data)
    merged.others += 1


def _cells(source: Store, into: Store, merged: Merged) -> None:
    there = into.cell_keys()
    blocks: dict[str, list[str]] = {}
    wanted = source.cell_keys()
    found = 0
    for record in source.records(sorted(wanted)):
        found += 1
        key = record.cell.key
        if record.block:
            blocks.setdefault(record.block, []).append(key)
        elif key not in there:
            into.put_cell(record)
            merged.cells += 1
    for keys in blocks.values():
        if not there.issuperset(keys):
            for record in source.records(keys):
                into.put_cell(record)
                merged.cells += 1
    if found < len(wanted):
        merged.damaged.append(f"{len(wanted) - found} cells")
