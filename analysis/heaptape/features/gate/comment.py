# SPDX-License-Identifier: MIT
"""The comment in a pull request: one, updated in place. `python -m heaptape.features.gate.comment gate.json`, which
action.yml runs, takes repository, pull request and token from the environment that GitHub gives.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heaptape.common.escape import markdown_prose
from heaptape.common.phrases import counted, percent, size
from heaptape.common.tables import Cell, Table, render_markdown
from heaptape.features.gate.tables import gate_lines

MARK = "<!-- heaptape gate -->"
LEAST_PERCENT, MOST_ROWS = 1.0, 10
NAMES = {"instructions": "malloc and free, instructions", "rss-peak": "peak memory", "rss-mean": "mean memory",
         "syscalls": "system calls"}  # fmt: skip


def body(data: Mapping) -> str:
    """Markdown: a headline with the figure that decides, and the figures that changed by 1 % or more, the largest
    change first; one line where none did. `data`: of `gate -o`.
    """
    rows = _changes(data)
    failed = not data["passed"]
    if not failed and not rows:
        which = counted(len(data["workloads"]), "workload")
        return f"{MARK}\n**heaptape gate:** no figure of {which} changed by {LEAST_PERCENT:.0f} % or more.\n"
    about, *lines = gate_lines(data)
    headline = about if failed else _headline(rows)
    cells = [_row(*row) for row in rows[:MOST_ROWS]]
    table = Table("", ["workload", "figure", "base", "head", "change"], cells, text_columns=2)
    left = f"{counted(len(rows) - MOST_ROWS, 'more figure')} changed." if len(rows) > MOST_ROWS else ""
    parts = [f"**heaptape gate:** {markdown_prose(headline)}"]
    parts += [render_markdown([table]).strip()] if cells else []
    parts += [f"- {markdown_prose(line)}" for line in lines] if failed else []
    return "\n\n".join([MARK, *filter(None, [*parts, left])]) + "\n"


def _row(workload: str, figure: str, one: Mapping) -> list[Cell]:
    values = [Cell(_shown(one, min(one[side]))) for side in ("old", "new")]
    change = Cell(_change(one) + " worse" * (one["verdict"] == "worse"), one["change_percent"])
    return [Cell(workload), Cell(NAMES.get(figure, figure)), *values, change]


def _changes(data: Mapping) -> list[tuple[str, str, Mapping]]:
    """(workload, figure, what `gate` held of it) of those in NAMES that changed, and of all that are worse."""
    found = [
        (workload["name"], figure, one)
        for workload in data["workloads"]
        for figure, one in workload["figures"].items()
        if one["verdict"] == "worse"
        or (figure in NAMES and one["verdict"] != "noise" and abs(one["change_percent"] or 0) >= LEAST_PERCENT)
    ]
    return sorted(found, key=lambda row: (row[2]["verdict"] != "worse", -abs(row[2]["change_percent"] or 0)))


def _headline(rows: list[tuple[str, str, Mapping]]) -> str:
    """The largest change of each figure, and where."""
    largest = {figure: (workload, one) for workload, figure, one in reversed(rows)}
    wanted = [figure for figure in NAMES if figure in largest]
    return (
        "; ".join(f"{NAMES[figure]} {_change(largest[figure][1])} on {largest[figure][0]}" for figure in wanted) + "."
    )


def _change(one: Mapping) -> str:
    return "from 0" if one["change_percent"] is None else percent(one["change_percent"])


def _shown(one: Mapping, value: float) -> str:
    return size(value) if one["unit"] == "bytes" else f"{value:,.0f}"


def post(text: str, comments_url: str, token: str) -> None:
    """Updates the comment that begins with MARK, else makes one; where there is none and nothing changed, none is made.
    `comments_url`: of the pull request's comments. Raises OSError.
    """
    page, mine = 1, None
    while mine is None and (known := _call("GET", f"{comments_url}?per_page=100&page={page}", token)):
        mine = next((one["url"] for one in known if one["body"].startswith(MARK)), None)
        page += 1
    if mine:
        _call("PATCH", mine, token, {"body": text})
    elif "\n\n" in text:
        _call("POST", comments_url, token, {"body": text})


def _call(method: str, url: str, token: str, data: dict | None = None) -> Any:  # noqa: ANN401
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    request = urllib.request.Request(url, json.dumps(data).encode() if data else None, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main(path: str, environment: Mapping[str, str]) -> None:
    repository = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}"
    url = f"{repository}/issues/{environment['PULL']}/comments"
    post(body(json.loads(Path(path).read_text())), url, environment["TOKEN"])


if __name__ == "__main__":
    main(sys.argv[1], os.environ)
