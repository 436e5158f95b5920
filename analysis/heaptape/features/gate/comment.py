# SPDX-License-Identifier: MIT
"""The comment in a pull request or merge request: one, updated in place. `python -m heaptape.features.gate.comment
gate.json`, which action.yml and gitlab-gate.yml run, takes place and token from the environment of the job. Without a
token, or where it may not comment, it prints the comment.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heaptape.common.escape import markdown_prose
from heaptape.common.phrases import counted, figure_name, percent, size
from heaptape.common.tables import Cell, Table, render_markdown
from heaptape.features.gate.tables import gate_lines, name_in

MARK = "<!-- heaptape gate -->"
LEAST_PERCENT, MOST_ROWS = 1.0, 10
REFUSED = (401, 403, 404)
COMMENTED = ("instructions", "rss-peak", "rss-mean", "syscalls")  # in the order of the headline


def body(data: Mapping) -> str:
    """Markdown: a headline with the figure that decides, and the figures that changed by 1 % or more, the largest
    change first; one line where none did. `data`: of `gate -o`.
    """
    rows = _changes(data)
    failed = not data["passed"]
    if not failed and not rows:
        which = counted(len(data["workloads"]), "workload")
        return f"{MARK}\n**heaptape gate:** no figure of {which} changed by {LEAST_PERCENT:.0f} % or more.\n"
    about, *lines = gate_lines(data, figures=False)
    worse = [row for row in rows if row[2]["verdict"] == "worse"]
    headline = f"{about} Worse: {_headline(worse)}" if worse else about if failed else _headline(rows)
    cells = [_row(*row) for row in rows[:MOST_ROWS]]
    table = Table("", ["workload", "figure", "base", "head", "change"], cells, text_columns=2)
    left = f"{counted(len(rows) - MOST_ROWS, 'more figure')} changed." if len(rows) > MOST_ROWS else ""
    parts = [f"**heaptape gate:** {markdown_prose(headline)}"]
    parts += [render_markdown([table]).strip()] if cells else []
    parts += [f"- {markdown_prose(line)}" for line in lines] if failed else []
    return "\n\n".join([MARK, *filter(None, [*parts, left])]) + "\n"


def _row(workload: str, name: str, one: Mapping) -> list[Cell]:
    values = [Cell(_shown(one, min(one[side]))) for side in ("old", "new")]
    beyond = f" worse (tolerated: {one['tolerated']})" if one["verdict"] == "worse" else ""
    change = Cell(_change(one) + beyond, one["change_percent"])
    return [Cell(workload), Cell(name), *values, change]


def _changes(data: Mapping) -> list[tuple[str, str, Mapping]]:
    """(workload, name, what `gate` held of it) of the figures in COMMENTED that changed, and of all that are worse."""
    found = [
        (workload["name"], name_in(workload, figure), one)
        for workload in data["workloads"]
        for figure, one in workload["figures"].items()
        if one["verdict"] == "worse"
        or (figure in COMMENTED and one["verdict"] != "noise" and abs(one["change_percent"] or 0) >= LEAST_PERCENT)
    ]
    return sorted(found, key=lambda row: (row[2]["verdict"] != "worse", -abs(row[2]["change_percent"] or 0)))


def _headline(rows: list[tuple[str, str, Mapping]]) -> str:
    """The largest change of each figure, and where."""
    largest = {name: (workload, one) for workload, name, one in reversed(rows)}
    in_order = dict.fromkeys([*map(figure_name, COMMENTED), *largest])
    wanted = [(name, *largest[name]) for name in in_order if name in largest]
    return "; ".join(f"{name} {_change(one)} on {workload}" for name, workload, one in wanted) + "."


def _change(one: Mapping) -> str:
    return "from 0" if one["change_percent"] is None else percent(one["change_percent"])


def _shown(one: Mapping, value: float) -> str:
    return size(value) if one["unit"] == "bytes" else f"{value:,.0f}"


@dataclass(frozen=True)
class Place:
    """The comments of a pull request. `updates`: the method that changes one; `token`: the header that has it."""

    comments_url: str
    updates: str
    token: tuple[str, str]

    def url_of(self, comment: Mapping) -> str:
        return str(comment["url"] if self.updates == "PATCH" else f"{self.comments_url}/{comment['id']}")


def place(environment: Mapping[str, str]) -> Place | None:
    """Of a job of GitHub or GitLab. None: the job is of no pull request, or has no token."""
    token = environment.get("TOKEN")
    if token and (number := environment.get("PULL")):
        repository = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}"
        return Place(f"{repository}/issues/{number}/comments", "PATCH", ("Authorization", f"Bearer {token}"))
    if token and (number := environment.get("CI_MERGE_REQUEST_IID")):
        project = f"{environment['CI_API_V4_URL']}/projects/{environment['CI_PROJECT_ID']}"
        return Place(f"{project}/merge_requests/{number}/notes", "PUT", ("PRIVATE-TOKEN", token))
    return None


def post(text: str, where: Place) -> None:
    """Updates the comment that begins with MARK, else makes one; where there is none and nothing changed, none is made.
    Raises OSError.
    """
    page, mine = 1, None
    while mine is None and (known := _call("GET", f"{where.comments_url}?per_page=100&page={page}", where)):
        mine = next((where.url_of(one) for one in known if (one["body"] or "").startswith(MARK)), None)
        page += 1
    if mine:
        _call(where.updates, mine, where, {"body": text})
    elif "\n\n" in text:
        _call("POST", where.comments_url, where, {"body": text})


def _call(method: str, url: str, where: Place, data: dict | None = None) -> Any:  # noqa: ANN401
    headers = dict([where.token, ("Content-Type", "application/json")])
    request = urllib.request.Request(url, json.dumps(data).encode() if data else None, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main(path: str, environment: Mapping[str, str]) -> None:
    text = body(json.loads(Path(path).read_text()))
    where, why = place(environment), "there is no token, or no pull request"
    if where:
        try:
            return post(text, where)
        except urllib.error.HTTPError as error:
            if error.code not in REFUSED:  # as of a fork's pull request, whose job may only read
                raise
            why = f"the token may not comment ({error.code} {error.reason})"
    print(f"{text.removeprefix(MARK).strip()}\n\nNo comment is written: {why}.")
    return None


if __name__ == "__main__":
    main(sys.argv[1], os.environ)
