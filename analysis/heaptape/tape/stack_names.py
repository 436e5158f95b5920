# SPDX-License-Identifier: MIT
"""Names for the nodes of a trace's call stacks: functions, files and lines, as far as files on this machine have them.

The lookup is done in C, once for each node and without a pass over the events (`heaptape-convert dump --stacks
--nodes`). Memory is O(nodes).
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home, default_home

ENTRY_POINTS = frozenset({
    "malloc", "calloc", "realloc", "reallocarray", "memalign", "posix_memalign", "aligned_alloc", "valloc", "pvalloc",
})  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """One function of a stack. `function` (demangled), `file`, `module`: None if not known; `line`: 0 if not known.
    `offset`: of the instruction in the module; the instruction's address if there is no module.
    """

    function: str | None
    file: str | None
    line: int
    module: str | None
    offset: int

    @property
    def name(self) -> str:
        """The function, else module+0xOFFSET, else the address; "..." for frames beyond the recording's depth."""
        if self.function:
            return self.function
        if self.module:
            return f"{self.module}+{self.offset:#x}"
        return f"{self.offset:#x}" if self.offset else "..."

    @property
    def is_entry_point(self) -> bool:
        """Is it the allocator function that was called? Recordings of some tools have it in the stack."""
        name = self.function or ""
        return name in ENTRY_POINTS or name.startswith("operator new")


@dataclass(frozen=True)
class StackNames:
    """`parents` and `frames` by node; entry 0 is not a node. `frames[n]`: the frames of node n itself, innermost first;
    several where functions were inlined.
    """

    parents: list[int]
    frames: list[list[Frame]]

    def callers(self, node: int) -> list[str]:
        """Names of the stack's functions, innermost first, from the first that is not the allocator's own."""
        frames = list(self.stack(node))
        while frames and frames[0].is_entry_point:
            frames.pop(0)
        return [frame.name for frame in frames]

    def stack(self, node: int) -> Iterator[Frame]:
        """All frames of the stack that ends at the node, innermost first; none for node 0."""
        while 0 < node < len(self.parents):
            yield from self.frames[node]
            node = self.parents[node]


def stack_names(path: str | Path, home: Home | None = None) -> StackNames:
    """Names all nodes of a trace, or of what `heaptape convert` can read. Raises HeaptapeError, or OSError if the
    program can't be run.
    """
    command = [str((home or default_home()).program("convert")), "dump", "--stacks", "--nodes", str(path)]
    parents: list[int] = [0]
    frames: list[list[Frame]] = [[]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for row in map(json.loads, process.stdout or ()):
            parents.append(row["parent"])
            frames.append([_frame(frame) for frame in row["frames"]])
    if process.returncode != 0:
        raise HeaptapeError("")  # the program has reported it already
    return StackNames(parents, frames)


def _frame(row: dict) -> Frame:
    return Frame(
        row.get("function"), row.get("file"), row.get("line", 0), row.get("module"), int(row.get("offset", "0"), 16)
    )
