# SPDX-License-Identifier: MIT
"""The folder of a minimised tape: the tape, what it shows, and how to reproduce that."""

import os
from dataclasses import asdict
from pathlib import Path

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
