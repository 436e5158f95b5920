# SPDX-License-Identifier: MIT
"""Functions that take more parameters than a reader can keep in mind. Definitions are read as text: clang-format, which
`make lint` checks, begins each one at the start of a line.
"""

import re
from collections.abc import Iterator
from pathlib import Path

MOST = 5
# NAME(PARAMETERS) { or ;, from the start of a line: parameters may be functions, and take several lines.
FUNCTION = re.compile(r"^[a-z_][^;{}()#=\n]*?\b(\w+)\(((?:[^;{}()]|\([^;{}()]*\))*)\)\s*\{", re.MULTILINE)


def parameters(text: str) -> int:
    """Number of parameters in a list, given without its parentheses."""
    while (bare := re.sub(r"\([^()]*\)", "", text)) != text:
        text = bare
    return 0 if text.strip() in ("", "void") else text.count(",") + 1


def functions(text: str) -> Iterator[tuple[int, str, int]]:
    """Line, name and number of parameters of each function that a C source defines."""
    for match in FUNCTION.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match[1], parameters(match[2])


def offences(root: Path, parts: set[str], imposed: list[str]) -> list[str]:
    """Functions of the parts' sources, tests included, with more than MOST parameters. imposed: names of functions
    whose parameters another project's interface decides; one that no function has is an offence, too.
    """
    taking = [
        (f"{path.relative_to(root)}:{line}: {name} takes {count} parameters, more than {MOST}", name)
        for part in sorted(parts)
        for path in sorted((root / part).rglob("*.[ch]"))
        for line, name, count in functions(path.read_text())
        if count > MOST
    ]
    stale = set(imposed) - {name for _, name in taking}
    return [f"{place}: some belong in a struct" for place, name in taking if name not in imposed] + [
        f"layers.toml: no {name} takes more than {MOST} parameters" for name in sorted(stale)
    ]
