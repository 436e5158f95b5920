# SPDX-License-Identifier: MIT
"""What the gate writes: the folder of a minimised tape (the tape, what it shows, how to reproduce that), and JUnit XML
(a testcase for each workload's promises and for each tolerated figure).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import write_json, write_text
from heaptape.gate.minimise import ENDINGS, Minimised, Minimiser, Pair, Question, shown
from heaptape.run.exact import FIGURES
from heaptape.run.registry import DEFAULT_VARIANT, Choice

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
    allocators = " ".join(f"-a {_quoted(spelled(choice))}" for choice in (question.old, question.new))
    return f"heaptape replay {TAPE} --passes {FIGURES[question.condition.figure].pass_} {allocators}"


def _quoted(text: str) -> str:
    return f"'{text}'" if " " in text else text


def _readme(source: str, result: Minimised) -> str:
    question = result.question
    condition = question.condition
    lines = [
        f"# {condition.text}",
        "",
        f"`{TAPE}` is the smallest piece found of `{source}` for which this holds: "
        f"{result.pair.events:,} of {result.whole.events:,} events, {result.tried:,} pieces tried "
        f"({ENDINGS[result.why]}).",
        "",
        f"| {condition.figure} | events | threads | {spelled(question.old)} (old) | {spelled(question.new)} (new) |",
        "|---|---:|---:|---:|---:|",
        *(
            _row(name, question, pair)
            for name, pair in (("whole", result.whole), ("this tape", result.pair), ("first call", result.start_up))
        ),
        "",
        _about_start_up(result),
        "",
        f"    {replay_command(question)}",
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


# Characters that XML 1.0 does not allow.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    suite = ElementTree.Element("testsuite", name=_text(workload["name"]))
    for number, error in enumerate(workload["errors"]):
        _case(suite, f"measured-{number + 1}" if number else "measured", "error", error)
    broken = workload["broken"]
    if workload["workload"]:
        fault = broken["new"] if not broken["old"] else ""
        case = _case(suite, "promises", "failure" if fault else "", fault)
        if broken["old"]:
            _output(case, f"the old allocator breaks a promise, too: {broken['old']}")
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
    return f"{amount}; beyond tolerance: {figure['beyond']}"


def _case(suite: ElementTree.Element, name: str, kind: str, message: str) -> ElementTree.Element:
    """kind: "failure", "error", or "": it passed."""
    case = ElementTree.SubElement(suite, "testcase", classname=f"heaptape.gate.{suite.attrib['name']}", name=name)
    if kind:
        ElementTree.SubElement(case, kind, message=_text(message), type=name).text = _text(message)
    return case


def _output(element: ElementTree.Element, text: str) -> None:
    output = element.find("system-out")
    if output is None:
        output = ElementTree.SubElement(element, "system-out")
    output.text = f"{output.text}\n{_text(text)}" if output.text else _text(text)


def _text(text: str) -> str:
    return _ILLEGAL.sub("?", text)
