# SPDX-License-Identifier: MIT
"""A trace's stacks, modules, marks and names of threads (core/trace/FORMAT.md,
sections 4a and 6). Used through tests.oracle.reader.Trace.
"""

import numpy as np
import pandas as pd
from heaptape.common.errors import FormatError

from tests.oracle.blocks import MARKS, MAX_THREAD, MODULES, STACKS, THREADS, Block, BlockFile
from tests.oracle.numbers import Malformed, exactly, leb, zigzag

LARGEST_NUMBER = 2**63 - 1


def _numbers(trace: BlockFile, block: Block, names: dict[int, str]) -> list[np.ndarray]:
    """The LEB columns with these ids, one entry per row."""
    raw = trace.raw_columns(block)
    try:
        return [exactly(leb(raw.get(number, b""), name), block.rows, name) for number, name in names.items()]
    except Malformed as error:
        raise FormatError(trace.path, block.offset, str(error)) from error


def stacks(trace: BlockFile) -> pd.DataFrame:
    parts, modules_before = [], 0
    for block in trace.blocks:
        if block.type == MODULES:
            modules_before += block.rows
        if block.type != STACKS:
            continue
        up, differences = _numbers(trace, block, {1: "parent", 2: "instruction"})
        node = np.arange(block.rows, dtype=np.uint64) + np.uint64(block.stack_nodes + 1)
        if (up == 0).any() or (up > node).any():
            raise FormatError(trace.path, block.offset, "a stack's parent is not before its child")
        instruction = np.cumsum(zigzag(differences), dtype=np.uint64)
        columns = {"parent": (node - up).astype(np.uint32), "instruction": instruction, "modules": modules_before}
        parts.append(pd.DataFrame(columns, index=node.astype(np.uint32)))
    if not parts:
        return pd.DataFrame(columns=["parent", "instruction", "modules"], index=pd.Index([], name="node"))
    return pd.concat(parts).rename_axis("node")


def _rows(trace: BlockFile, kind: int, numbers: dict[str, int], texts: dict[str, tuple[int, bool]]) -> pd.DataFrame:
    """JSON rows of all blocks of the kind. numbers: key -> largest; texts: key -> (most bytes, may be missing)."""
    out: list[dict] = []
    for block in trace.blocks:
        if block.type != kind:
            continue
        rows = trace.json_value(block)
        if not isinstance(rows, list) or len(rows) != block.rows:
            raise FormatError(trace.path, block.offset, f"not a JSON array of {block.rows} values")
        for place, row in enumerate(rows):
            if not isinstance(row, dict) or not _is_sound(row, numbers, texts):
                raise FormatError(trace.path, block.offset, f"row {place} is not what this block has")
            out.append({key: row.get(key) for key in (*numbers, *texts)})
    types = dict.fromkeys(numbers, np.uint64)
    return pd.DataFrame(out, columns=[*numbers, *texts]).astype(types)


def _is_sound(row: dict, numbers: dict[str, int], texts: dict[str, tuple[int, bool]]) -> bool:
    for key, largest in numbers.items():
        value = row.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
            return False
    for key, (limit, optional) in texts.items():
        value = row.get(key)
        if value is None and key not in row and optional:
            continue
        if not isinstance(value, str) or "\0" in value or len(value.encode(errors="replace")) > limit:
            return False
        if any("\ud800" <= character <= "\udfff" for character in value):
            return False
    return "start" not in numbers or row["start"] < row["end"]


def modules(trace: BlockFile) -> pd.DataFrame:
    numbers = {"start": LARGEST_NUMBER, "end": LARGEST_NUMBER, "bias": LARGEST_NUMBER}
    texts = {"name": (4095, False), "path": (4095, True), "build_id": (128, True)}
    return _rows(trace, MODULES, numbers, texts)[["name", "path", "build_id", "start", "end", "bias"]]


def marks(trace: BlockFile) -> pd.DataFrame:
    numbers = {"stamp": LARGEST_NUMBER, "thread": MAX_THREAD - 1, "events": LARGEST_NUMBER}
    return _rows(trace, MARKS, numbers, {"text": (255, False)})


def thread_names(trace: BlockFile) -> dict[int, str]:
    frame = _rows(trace, THREADS, {"thread": MAX_THREAD - 1}, {"name": (255, False)})
    return {int(thread): name for thread, name in zip(frame["thread"], frame["name"], strict=True)}
