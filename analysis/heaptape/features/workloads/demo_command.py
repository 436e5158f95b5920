# SPDX-License-Identifier: MIT
"""`heaptape demo`: a first look at a program installed here, by the commands that a user would type."""

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from heaptape.common import console
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home

SUMMARY = "record, replay and report a program installed here, as a first look"
GROUP = "Start here"
TAKES_A_COMMAND = ()
DESCRIPTION = (
    "Records a program, replays the recording under every allocator found here, and writes a report, in half a minute. "
    "Prints each command before it runs it. Without CMD: sqlite3 if it is here, else Python."
)

SQL = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, body BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO item SELECT i, 'item ' || (i * 7919 % 10007), randomblob(20 + i % 200) FROM n;
CREATE INDEX item_name ON item(name);
SELECT count(*), sum(length(body)) FROM item WHERE name LIKE '%77%';
DELETE FROM item WHERE id % 3 = 0;
"""
PYTHON = (
    "import ast, inspect, json; text = inspect.getsource(ast); "
    "trees = [ast.parse(text) for _ in range(4)]; "
    "rows = [json.loads(json.dumps({'id': i, 'words': text.split()[:50]})) for i in range(300)]; "
    "print(sum(len(ast.dump(tree)) for tree in trees), len(rows))"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default="heaptape-demo", help="for all files (default ./heaptape-demo)"
    )
    parser.usage = "%(prog)s [-h] [-o FOLDER] [-- CMD [ARGUMENT...]]"


def run(arguments: argparse.Namespace) -> int:
    """Runs the three commands. Raises HeaptapeError if one fails."""
    folder = Path(arguments.output)
    tape, results, report = (folder / f"demo.{suffix}" for suffix in ("tape", "json", "html"))
    command = arguments.own_options or _program()
    folder.mkdir(parents=True, exist_ok=True)
    _step(arguments.home, ["record", "-o", str(tape), "--no-follow", "--", *command])
    if not tape.is_file():
        raise HeaptapeError(f"{command[0]} left no recording: see 'heaptape record --help'")
    _step(arguments.home, ["replay", str(tape), "-n", "2", "-o", str(results)])
    _step(arguments.home, ["report", str(results), "-o", str(report)])
    console.note(f"the report is {report.resolve()}")
    return 0


def _program() -> list[str]:
    sqlite = shutil.which("sqlite3")
    return [sqlite, ":memory:", SQL] if sqlite else [sys.executable, "-I", "-c", PYTHON]


def _step(home: Home, arguments: Sequence[str]) -> None:
    shown = [word if len(word) < 60 else "..." for word in arguments]
    console.note("$ " + shlex.join(["heaptape", *shown]))
    sys.stdout.flush()
    status = subprocess.run([*home.command(), *console.words(), *arguments], stdin=subprocess.DEVNULL).returncode
    if status != 0:
        raise HeaptapeError(f"heaptape {arguments[0]} ended with status {status}")
