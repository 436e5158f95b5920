# SPDX-License-Identifier: MIT
"""`heaptape workloads capture`: records workloads, and prints what was recorded."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import check_writable
from heaptape.run import capture
from heaptape.run.workloads import APP, find, named


@dataclass(frozen=True)
class Wish:
    """How to record. `output`: trace of a single workload (default NAME.tape here). `form`: "text", "json", "table"."""

    output: str | None = None
    options: tuple[str, ...] = ()
    keep_all: bool = False
    discard: bool = False
    form: str = "text"


def record(names: Sequence[str], every_app: bool, wish: Wish, home: Home) -> int:
    """Records each workload and prints what was recorded. A failure is reported, and the next workload is recorded."""
    known = find(home)
    chosen = [w for w in known if w.kind == APP] if every_app else named(names, known)
    if wish.output and len(chosen) > 1:
        raise UsageError("workloads capture -o: names the trace of one workload")
    if wish.output:
        check_writable(wish.output)
    rows: list[dict] = []
    for workload in chosen:
        output = Path(wish.output or f"{workload.name}.tape")
        try:
            done = capture.capture(workload.recipe, output, home, wish.options, wish.keep_all, console.note)
        except HeaptapeError as error:
            if len(chosen) == 1:
                raise
            console.error(str(error))
            rows.append({"name": workload.name, "failure": str(error).partition("\n")[0]})
            continue
        rows.append(done.row())
        if wish.form == "text":
            _print_captured(done, wish.keep_all, home)
        if wish.discard:
            output.unlink()
    if wish.form == "json":
        print(json.dumps(rows[0] if len(chosen) == 1 else {"workloads": rows}, indent=1))
    elif wish.form == "table":
        print(capture.markdown(rows), end="")
    return 1 if any("failure" in row or not row["check"]["ok"] for row in rows) else 0


def _print_captured(done: capture.Captured, kept: bool, home: Home) -> None:
    sys.stdout.flush()
    subprocess.run([home.program("convert"), "info", done.chosen.path])
    others = ""
    if done.others:
        events = sum(trace.about["events"] for trace in done.others)
        what = "kept beside it" if kept else "not kept: --all"
        others = f"; {len(done.others)} more processes, {events:,} events ({what})"
    print(f"{done.chosen.path}: {done.recipe.name}, {done.wall_s:.1f} s{others}")
    if done.recipe.known:
        print(f"note: {done.recipe.known}")
