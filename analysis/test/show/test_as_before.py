# SPDX-License-Identifier: MIT
"""What commands print, write and draw of one recording and of its results is what it was: `make golden` writes it anew;
read the difference. The recording is of as_before/nodes.c, with call stacks and all data accesses; of the results what
is large was kept of two allocators. Features print in most of it, so it is asked of the whole product only.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from heaptape.commands.main import COMMANDS, make_parser, parsers_of_commands
from heaptape.commands.outcome import EVERYWHERE
from heaptape.common.version import __version__
from matplotlib.figure import Figure

from tests.support import call_heaptape, same_as_before

pytest.importorskip("heaptape.features.blame")
pytest.importorskip("heaptape.features.contention")
pytest.importorskip("heaptape.features.misses")
pytest.importorskip("heaptape.features.sharing")
plot_command = pytest.importorskip("heaptape.features.plot.plot_command")

FOLDER = Path(__file__).with_name("as_before")
CORNERS = "reference:neither,reference:fastbins,reference:tcache,reference"
PRINTED = {
    "answer": "compare nodes.json sweep.json",
    "tables": "compare nodes.json --table all --corners " + CORNERS,
    "several": "compare nodes.json sweep.json --table memory,calls,published,overhead,verdict --format md",
    "sweep": "compare sweep.json --sweep --format latex",
    "corners": f"compare nodes.json --corners {CORNERS} --ci bootstrap",
    "ministat": "compare nodes.json --ministat",
    "profile": "profile nodes.tape",
    "profile-tables": "profile nodes.tape --table all",
    "profile-page": "profile nodes.tape --format html",
    "blame": "blame nodes.json -a glibc -a reference:tcache --by site --by size --by thread --table all",
    "blame-change": "blame nodes.json -a glibc --by age --at peak --at end",
    "answer-json": "compare nodes.json sweep.json --json",
    "tables-json": "compare nodes.json --table all --format json",
    "tables-of-reference": "compare nodes.json --baseline reference --table all --format md",
    "tables-of-sweep": "compare sweep.json --table all",
    "profile-json": "profile nodes.tape --json",
    "blame-json": "blame nodes.json --json",
    "report": "report nodes.json sweep.json -o -",
}


def shortened(value: object) -> object:
    """Numbers to five digits; of long lists the ends, how many there are, and the sum of numbers."""
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    if isinstance(value, list):
        if len(value) > 8:
            numbers = all(isinstance(one, int | float) for one in value)
            value = [*value[:2], value[-1], *([sum(value)] if numbers else []), len(value)]
        return [shortened(one) for one in value]
    if isinstance(value, str) and value.startswith("data:image"):
        return "a picture"
    return float(f"{value:.5g}") if isinstance(value, float) else value


def lines_of(text: str) -> str:
    """Of a page its words and the data of its script, without pictures, in which versions of matplotlib differ; of JSON
    and text themselves.
    """
    if not text.startswith("<!"):
        return json.dumps(shortened(json.loads(text)), indent=1) if text.startswith("{") else text
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    data = json.dumps(shortened(json.loads(found[1])), indent=1) if found else ""
    words = re.sub(r"<(script|style|svg)\b.*?</\1>|<!--.*?-->", "", text, flags=re.DOTALL)
    words = re.sub(r"\s*\n\s*", "\n", unescape(re.sub(r"<[^>]*>", "\n", words)))
    return f"{words}\n{data}"


def contents(figure: Figure) -> str:
    """What its axes hold, in data: without fonts and places, in which versions of matplotlib differ."""
    said = []
    for axes in figure.axes:
        ends, legend = [*map(float, (*axes.get_xlim(), *axes.get_ylim()))], axes.get_legend()
        said += [f"axes {axes.get_title()} | {axes.get_xlabel()} | {axes.get_ylabel()} | {shortened(ends)}"]
        said += [
            f" {axes.get_xscale()} {axes.get_yscale()} {[one.get_text() for one in legend.texts] if legend else []}"
        ]
        said += [f" line {one.get_label()} {one.get_color()} {numbers(one.get_xydata())}" for one in axes.lines]
        said += [f" patch {numbers(one.get_path().vertices)} {numbers(one.get_facecolor())}" for one in axes.patches]
        said += [f" points {numbers(one.get_offsets())} {len(one.get_paths())}" for one in axes.collections]
        said += [f" image {numbers(one.get_array())}" for one in axes.images]
        said += [f" text {one.get_text()}" for one in axes.texts if one.get_text()]
    return "\n".join(said)


def numbers(values: object) -> object:
    return shortened(np.ma.filled(np.ma.asarray(values, float), -1.0).ravel().tolist())


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nodes", "sweep"):
        (tmp_path / f"{name}.json").write_bytes(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    (tmp_path / "nodes.tape").write_bytes((FOLDER / "nodes.tape").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.mark.parametrize("name", PRINTED)
def test_commands_print_of_a_recording_and_its_results_what_they_printed(name: str, inputs: None) -> None:
    done = call_heaptape(*PRINTED[name].split())
    assert done.status == 0, done.stderr
    same_as_before(FOLDER / f"{name}.txt", lines_of(done.stdout).replace(__version__, "VERSION"))


@pytest.mark.parametrize(
    ("names", "source"), [(plot_command.OF_RESULTS, "nodes.json"), (plot_command.OF_RECORDINGS, "nodes.tape")]
)
def test_pictures_hold_what_they_held(names, source, inputs, monkeypatch):
    held: list[str] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: held.append(contents(figure)))
    done = call_heaptape("plot", source, *names)
    same_as_before(FOLDER / f"pictures-of-{source}.txt", "\n".join([*held, done.stdout, done.stderr]) + "\n")


def options(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"{name}: {' '.join(parser.usual)} | {parser.usage} | {parser.description} | {parser.epilog}"
    for group in parser._action_groups:
        for one in group._group_actions:
            if isinstance(one, argparse._SubParsersAction):
                for inner, its in one.choices.items():
                    yield from options(f"{name} {inner}", its)
                continue
            if set(one.option_strings) & EVERYWHERE:
                continue
            kind = getattr(one.type, "__name__", one.type)
            values = (*one.option_strings, one.dest, one.nargs, one.default, one.const, kind, one.metavar, one.required)
            yield " | ".join(map(str, (f"  {group.title}", *values, [*(one.choices or ())], one.help)))


def test_commands_take_the_options_that_they_took() -> None:
    said = [
        line
        for name, parser in parsers_of_commands(make_parser()).items()
        if name in COMMANDS
        for line in options(name, parser)
    ]
    same_as_before(FOLDER / "options.txt", "\n".join(said) + "\n")
