# SPDX-License-Identifier: MIT
"""Finds the smallest piece of a workload on which a condition still holds between two allocators.

The condition must hold for each accepted piece, in at least two runs; where these differ, in four. If it compares a
figure with the old allocator's, there are two more requirements, so that the piece shows the same problem as the whole.
They apply only as far as the whole fulfils them:

- The condition holds for the figures beyond each allocator's start-up, which is measured on the first object alone.
  Otherwise one malloc would remain for two allocators whose start-up differs.
- That difference is at least LEAST, and as large as that of the start-ups (or half the whole's difference). Otherwise a
  difference of one OS page would remain, or a tape that mostly shows start-up.

What the gate writes: the folder of a minimised tape (the tape, what it shows, how to reproduce that), and JUnit XML
(a testcase for each workload's promises and for each tolerated figure).
"""

import contextlib
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from heaptape.allocators.registry import DEFAULT_VARIANT, Choice
from heaptape.common import escape
from heaptape.common.console import printable
from heaptape.common.engine import OF_ACCESSES
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.output import write_json, write_text
from heaptape.common.phrases import size
from heaptape.common.process import processors
from heaptape.features.gate.search import Candidate, Objects, Search, read_objects, whole_history, write_candidate
from heaptape.run import exact, replay
from heaptape.run.condition import Condition
from heaptape.run.engine_process import Processes, in_order
from heaptape.run.exact import FIGURES
from heaptape.tape.workload_format import read_workload

# The smallest relevant difference, in the figure's unit: 16 OS pages, not one.
LEAST = {
    "rss-peak": 65536,
    "rss-mean": 65536,
    "vmsize-peak": 65536,
    "faults": 16,
    "syscalls": 2,
    "instructions": 10_000,
}
FEWEST_RUNS, MOST_RUNS = 2, 4


class SpentError(Exception):
    """The limit of candidates or of time is reached: `why` is of ENDINGS."""

    def __init__(self, why: str) -> None:
        self.why = why


@dataclass(frozen=True)
class Pair:
    """The figure on both allocators, for a history with `events` and `threads`; `old` is None where the condition does
    not need it.
    """

    new: float
    old: float | None
    events: int
    threads: int


@dataclass(frozen=True)
class Question:
    """The condition to be shown, and the two allocators."""

    condition: Condition
    old: Choice
    new: Choice

    @property
    def compares(self) -> bool:
        """Does the condition compare with the old allocator, and is more of the figure worse?"""
        return self.condition.reference is not None and self.condition.comparison.startswith(">")

    def holds(self, pair: Pair) -> bool:
        return self.condition.holds(pair.new, pair.old)


@dataclass(frozen=True)
class Limits:
    """How long to search. `jobs`: candidates tried at once."""

    runs: int = 400
    minutes: float = 10
    jobs: int = field(default_factory=processors)


@dataclass(frozen=True)
class Minimised:
    """The result: `best`, with its figures `pair`. `tried`: candidates; `why` the search ended: one of ENDINGS.
    `beyond_start_up`: the condition also holds for the figures beyond start-up. `start_up`: the figures on the first
    object alone.
    """

    question: Question
    best: Candidate
    pair: Pair
    whole: Pair
    start_up: Pair
    beyond_start_up: bool
    tried: int
    why: str


ENDINGS = {
    "done": "nothing more can be left out",
    "runs": "the number of candidates was limited",
    "minutes": "the time was limited",
    "interrupted": "it was interrupted",
}


class Judge:
    """Decides whether the question's condition holds for candidates. `pairs`: the figures where it does, by key."""

    def __init__(self, workload: Path, objects: Objects, question: Question, home: Home, scratch: Path) -> None:
        self.question = question
        self._workload, self._home, self._scratch = workload, home, scratch
        self._known: dict[tuple, bool] = {}
        self._least: float | None = None  # of the difference beyond start-up; None: start-up is ignored
        whole = whole_history(objects)
        self.whole = self.measure(whole)
        self.pairs = {whole.key(): self.whole}  # of the candidates that hold
        if not question.holds(self.whole):
            raise HeaptapeError(
                f"{question.condition.text} does not hold of the whole: {in_words(question, self.whole)}"
            )
        born = int(objects.table["born"].iloc[0])
        self.start_up = self.measure(replace(whole, end=born + 1))
        if question.compares and question.holds(self._net(self.whole)):
            beyond = _difference(self._net(self.whole))
            least = max(LEAST.get(question.condition.figure, 0), _difference(self.start_up))
            self._least = min(least, beyond / 2)

    @property
    def beyond_start_up(self) -> bool:
        """Must the condition also hold for the figures beyond start-up?"""
        return self._least is not None

    def measure(self, candidate: Candidate) -> Pair:
        """The candidate's figures, in one run on each allocator. Raises HeaptapeError."""
        with self._set_up(candidate) as bench:
            return self._figures(bench)

    @contextlib.contextmanager
    def _set_up(self, candidate: Candidate, processes: Processes | None = None) -> Iterator[exact.Bench]:
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            where = Path(folder) / "candidate.tape"
            write_candidate(self._workload, candidate, where, self._home)
            workload = replay.prepare(str(where), self._home, Path(folder))
            yield exact.Bench(workload, self._home, processes=processes)

    def _figures(self, bench: exact.Bench) -> Pair:
        question = self.question
        figure = question.condition.figure
        new = bench.figures(question.new, [figure])[figure]
        old = None
        if question.condition.reference is not None:
            old = bench.figures(question.old, [figure])[figure]
        return Pair(new, old, bench.ops, read_workload(bench.workload).threads)

    def holds(self, candidate: Candidate, processes: Processes) -> bool:
        """Does it hold in FEWEST_RUNS runs, where these differ in MOST_RUNS? Raises RunError where they were ended."""
        key = candidate.key()
        if key not in self._known:
            with self._set_up(candidate, processes) as bench:
                self._known[key] = self._holds(candidate, bench, processes)
        return self._known[key]

    def _holds(self, candidate: Candidate, bench: exact.Bench, processes: Processes) -> bool:
        seen: set[Pair] = set()
        for run in range(MOST_RUNS):
            if run >= FEWEST_RUNS and len(seen) == 1:
                break
            try:
                pair = self._figures(bench)
            except exact.RunError:
                if processes.ended:
                    raise
                return False
            if not self.accepts(pair):
                return False
            seen.add(pair)
            self.pairs[candidate.key()] = pair
        return True

    def accepts(self, pair: Pair) -> bool:
        """Does the condition hold, with the other requirements?"""
        if not self.question.holds(pair):
            return False
        net = self._net(pair)
        return self._least is None or (self.question.holds(net) and _difference(net) >= self._least)

    def _net(self, pair: Pair) -> Pair:
        return net(pair, self.start_up)


def net(pair: Pair, start_up: Pair) -> Pair:
    """The figures beyond each allocator's start-up."""
    old = None if pair.old is None else max(pair.old - (start_up.old or 0), 0.0)
    return replace(pair, new=max(pair.new - start_up.new, 0.0), old=old)


def _difference(pair: Pair) -> float:
    return pair.new - (pair.old or 0)


def in_words(question: Question, pair: Pair) -> str:
    figure = question.condition.figure
    new = f"{figure} is {shown(figure, pair.new)} on {question.new.label}"
    return new if pair.old is None else f"{new}, {shown(figure, pair.old)} on {question.old.label}"


def start_up_in_words(result: Minimised) -> str:
    """The figures beyond start-up in words, or that start-up alone shows the difference; empty: of no interest."""
    if not result.question.compares:
        return ""
    if not result.beyond_start_up:
        return "the start-up shows it, too"
    figure, found = result.question.condition.figure, net(result.pair, result.start_up)
    return f"beyond start-up {shown(figure, found.new)} and {shown(figure, found.old or 0)}"


def shown(figure: str, value: float) -> str:
    return size(value) if exact.FIGURES[figure].unit == "bytes" else f"{value:,.0f}"


class Minimiser:
    """A search for the smallest piece of a workload for which the question's condition holds. `scratch`: a folder for
    candidates. `tell(the size of the best so far, and the nearest limit)`: how much is left to do is not known.
    """

    def __init__(
        self, workload: Path, question: Question, home: Home, scratch: Path, limits: Limits | None = None
    ) -> None:
        """Raises HeaptapeError where the condition does not hold for the whole, or pieces do not have its figure."""
        figure = question.condition.figure
        if exact.known(figure).pass_ in OF_ACCESSES:
            raise HeaptapeError(f"{figure}: a piece of a history has no data accesses, by which they are counted")
        objects = read_objects(workload)
        if not objects.ops:
            raise HeaptapeError(f"{workload.name}: no calls")
        self.tell: Callable[[str], None] = lambda what: None
        self._workload, self._home, self._limits = workload, home, limits or Limits()
        self._begin = time.monotonic()
        self._judge = Judge(workload, objects, question, home, scratch)
        self._search = Search(objects, whole_history(objects), self._find)
        self._tried, self._why = 0, "interrupted"

    def run(self) -> None:
        """Searches. However it ends, `result` is the best so far."""
        try:
            self._search.run()
            self._why = "done"
        except SpentError as spent:
            self._why = spent.why

    @property
    def result(self) -> Minimised:
        judge, best = self._judge, self._search.best
        return Minimised(
            question=judge.question,
            best=best,
            pair=judge.pairs[best.key()],
            whole=judge.whole,
            start_up=judge.start_up,
            beyond_start_up=judge.beyond_start_up,
            tried=self._tried,
            why=self._why,
        )

    def write(self, tape: Path) -> None:
        """The result as a trace. Raises HeaptapeError."""
        write_candidate(self._workload, self._search.best, tape, self._home)

    def _find(self, wanted: Iterable[Candidate]) -> tuple[int, Candidate] | None:
        """The first candidate that holds, with its number; `jobs` are tried at once."""
        given: list[Candidate] = []

        def counted() -> Iterator[Candidate]:
            for candidate in wanted:
                self._count()
                given.append(candidate)
                yield candidate

        answers = in_order(self._judge.holds, counted(), self._limits.jobs, Processes())
        with contextlib.closing(answers):
            for number, holds in enumerate(answers):
                if holds:
                    return number, given[number]
        return None

    def _count(self) -> None:
        """Counts a candidate. Raises SpentError where a limit is reached."""
        minutes, limits = (time.monotonic() - self._begin) / 60, self._limits
        spent = f"{minutes:.0f} of at most {limits.minutes:g} minutes"
        if self._tried / limits.runs > minutes / limits.minutes:
            spent = f"{self._tried:,} of at most {limits.runs:,} tries"
        self.tell(f"{self._search.size(self._search.best)[0]:,} events, {spent}")
        if self._tried >= limits.runs:
            raise SpentError("runs")
        if minutes >= limits.minutes:
            raise SpentError("minutes")
        self._tried += 1


TAPE, ABOUT, README = "minimised.tape", "minimised.json", "README.md"


def check_folder(folder: Path) -> None:
    """Checks before the work whether the folder can be made, or written to. Raises HeaptapeError where it can't."""
    path = folder.absolute()
    there = next(one for one in (path, *path.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise HeaptapeError(f"{folder}: can't be written")


def write(folder: Path, source: str, minimiser: Minimiser) -> dict:
    """Writes the best so far into the folder; returns the content of its JSON file. Raises HeaptapeError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HeaptapeError(f"{folder}: can't be made: {error.strerror}") from error
    minimiser.write(folder / TAPE)
    about = describe(source, minimiser.result) | {"folder": str(folder)}
    write_json(str(folder / ABOUT), {"schema": 1} | about)
    write_text(str(folder / README), _readme(source, minimiser.result))
    return about


def describe(source: str, result: Minimised) -> dict:
    """The JSON content, as docs/use/GATE.md defines it."""
    question = result.question
    return {
        "source": source,
        "condition": question.condition.text,
        "figure": question.condition.figure,
        "unit": FIGURES[question.condition.figure].unit,
        "old": spelled(question.old),
        "new": spelled(question.new),
        "minimised": asdict(result.pair),
        "whole": asdict(result.whole),
        "start_up": asdict(result.start_up),
        "beyond_start_up": result.beyond_start_up,
        "candidates": result.tried,
        "ended": result.why,
        "replay": replay_command(question),
    }


def spelled(choice: Choice) -> str:
    library = choice.allocator == choice.path.name
    name = str(choice.path) if library else choice.allocator
    return name if choice.variant == DEFAULT_VARIANT else f"{name}:{choice.variant}"


def replay_command(question: Question) -> str:
    words = ["heaptape", "replay", TAPE, "--passes", FIGURES[question.condition.figure].pass_]
    return shlex.join([*words, "-a", spelled(question.old), "-a", spelled(question.new)])


def _readme(source: str, result: Minimised) -> str:
    question = result.question
    condition = question.condition
    old, new = escape.markdown(spelled(question.old)), escape.markdown(spelled(question.new))
    lines = [
        f"# {escape.markdown(condition.text)}",
        "",
        f"`{TAPE}` is the smallest piece found of {escape.markdown(source)} for which this holds: "
        f"{result.pair.events:,} of {result.whole.events:,} events, {result.tried:,} pieces tried "
        f"({ENDINGS[result.why]}).",
        "",
        f"| {condition.figure} | events | threads | {old} (old) | {new} (new) |",
        "|---|---:|---:|---:|---:|",
        *(
            _row(name, question, pair)
            for name, pair in (("whole", result.whole), ("this tape", result.pair), ("first call", result.start_up))
        ),
        "",
        _about_start_up(result),
        "",
        f"    {printable(replay_command(question))}",
        "    heaptape dump " + TAPE,
        "",
    ]
    return "\n".join(lines)


def _row(name: str, question: Question, pair: Pair) -> str:
    figure = question.condition.figure
    old = "–" if pair.old is None else shown(figure, pair.old)
    return f"| {name} | {pair.events:,} | {pair.threads:,} | {old} | {shown(figure, pair.new)} |"


def _about_start_up(result: Minimised) -> str:
    if result.beyond_start_up:
        return "It also holds for the figures beyond each allocator's first call."
    if result.question.compares:
        return "It does not hold for the figures beyond each allocator's first call: their start-up differs."
    return "The first call is shown for comparison: it includes the allocator's start-up."


def junit_xml(data: Mapping) -> str:
    """The JUnit XML. `data`: as docs/use/GATE.md defines it."""
    root = ElementTree.Element("testsuites", name="heaptape gate")
    for workload in data["workloads"]:
        root.append(_suite(workload, data))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.attrib[key]) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(workload: Mapping, data: Mapping) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=escape.lines(workload["name"]))
    for number, error in enumerate(workload["errors"]):
        _case(suite, f"measured-{number + 1}" if number else "measured", "error", error)
    broken = workload["broken"]
    if workload["workload"]:
        fault = broken["new"] if not broken["old"] else ""
        case = _case(suite, "promises", "failure" if fault else "", fault)
        if broken["old"]:
            _output(case, f"the old allocator fails verification, too: {broken['old']}")
    for name, figure in workload["figures"].items():
        if figure["verdict"] != "shown":
            case = _case(suite, name, "failure" if figure["verdict"] == "worse" else "", _message(figure))
            _output(case, f"old {figure['old']}, new {figure['new']} {figure['unit']}".rstrip())
    for one in data["minimised"]:
        if one["workload"] == workload["name"]:
            _output(suite, f"{one['figure']}: the smallest tape that shows it: {one['folder']}")
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for kind in ("failure", "error"):
        suite.set(f"{kind}s", str(sum(case.find(kind) is not None for case in cases)))
    return suite


def _message(figure: Mapping) -> str:
    change = figure["change_percent"]
    amount = "new, where there was none" if change is None else f"{change:+.2f} %"
    return f"{amount}; tolerated: {figure['tolerated']}"


def _case(suite: ElementTree.Element, name: str, kind: str, message: str) -> ElementTree.Element:
    """kind: "failure", "error", or "": it passed."""
    case = ElementTree.SubElement(suite, "testcase", classname=f"heaptape.gate.{suite.attrib['name']}", name=name)
    if kind:
        ElementTree.SubElement(case, kind, message=escape.lines(message), type=name).text = escape.lines(message)
    return case


def _output(element: ElementTree.Element, text: str) -> None:
    output = element.find("system-out")
    if output is None:
        output = ElementTree.SubElement(element, "system-out")
    output.text = f"{output.text}\n{escape.lines(text)}" if output.text else escape.lines(text)
