# SPDX-License-Identifier: MIT
"""Every recipe of a real program, recorded once: docs/measurements/data/recipes.txt.

    python -m tests.bench.recording.recipes [NAME...]

Prints a Markdown table; a recipe that can't run here, or fails, has the reason in its row.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.run import capture, recipes

from tests.support import OUT


def rows(names: Sequence[str]) -> list[dict]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for recipe in recipes.find():
            if names and recipe.name not in names:
                continue
            try:
                found.append(capture.capture(recipe, Path(folder) / "a.tape", Home(OUT), tell=print_note).row())
            except HeaptapeError as error:
                found.append({"name": recipe.name, "failure": str(error).partition("\n")[0]})
    return found


def print_note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def markdown(rows: Sequence[dict]) -> str:
    head = ("recipe", "process", "events", "threads", "bytes/event", "peak live, MiB", "peak RssAnon, MiB", "wall, s")
    lines = ["| " + " | ".join((*head, "check", "packages")) + " |", "|---|---" + "|---:" * 6 + "|---|---|"]
    for row in rows:
        if "failure" in row:
            lines.append(f"| {row['name']} | – {'| ' * 7}{row['failure']} | |")
            continue
        known = f" ({row['known']})" if row["known"] else ""
        packages = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        cells = [row["name"], row["program"], f"{row['events']:,}", f"{row['threads']:,}"]
        cells += [f"{row['bytes_per_event']:.2f}", _mib(row["peak_live_bytes"]), _mib(row["rss_anon_peak_bytes"])]
        cells += [f"{row['wall_s']:.1f}", row["verdict"] + known, packages]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _mib(size: int | None) -> str:
    return "–" if size is None else f"{size / (1 << 20):,.1f}"


if __name__ == "__main__":
    print(markdown(rows(sys.argv[1:])), end="")
