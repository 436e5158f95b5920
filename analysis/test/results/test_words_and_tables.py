# SPDX-License-Identifier: MIT
"""A sentence and a table that name the same count give the same number: over recordings of real programs."""

import re
from pathlib import Path

import pytest
from heaptape.results.model.penalties import penalties
from heaptape.results.model.time_model import prediction, sentences
from heaptape.results.schema import results
from heaptape.show.tables import time_table, usual
from results.planted import measurement

from tests.support import call_heaptape

CORPUS = Path(__file__).resolve().parents[3] / "workloads" / "corpus"
SMALL = "gs"
PLACES = sorted(CORPUS.glob("*.tape"))
CLAIM = re.compile(r"([\d.,]+) % (more|fewer) (instructions in malloc and free|page faults|system calls)(?=[,.])")


def claimed(name, before, after):
    """How a sentence would put the change; None: it would not."""
    percent = 100 * (after / before - 1) if before else 0.0
    size = f"{abs(percent):.0f}" if abs(percent) >= 9.5 else f"{abs(percent):.1f}"
    return (size, "more" if percent > 0 else "fewer", name) if size != "0.0" else None


@pytest.mark.parametrize(
    "tape", [pytest.param(tape, id=tape.stem, marks=[pytest.mark.long] * (tape.stem != SMALL)) for tape in PLACES]
)
def test_sentences_and_tables_give_the_same_numbers(tape, tmp_path):
    chosen = [word for name in ("glibc", "reference", "tcmalloc") for word in ("-a", name)]
    path = tmp_path / "r.json"
    done = call_heaptape("replay", tape, *chosen, "-n", "1", "--passes", "memory,instructions", "-o", path)
    assert done.status == 0, done.stderr
    file = results(path)
    predicted = prediction([file], "glibc", penalties(measurement()))
    said = sentences(predicted, [file], "glibc")
    shown = usual.comparison([file], "glibc")
    values = {}
    for table in shown:
        values |= {(table.title, row[0].text, of): cell for row in table.rows for of, cell in zip(table.columns, row)}
    exact = {"instructions in malloc and free": ("Instructions (exact), % of glibc", "Total")}
    exact["page faults"] = ("Memory, % of glibc", "page faults")
    counted = [column for title, _, column in values if title == "System calls and page faults"][1:6]
    for label in ("reference", "tcmalloc"):
        (sentence,) = (one for one in said if one.startswith(f"{label} against"))
        tabled = {name: values[title, label, of].value / 100 for name, (title, of) in exact.items()}
        pairs = {name: claimed(name, 1, ratio) for name, ratio in tabled.items()}
        calls = [
            sum(values["System calls and page faults", one, of].value for of in counted) for one in ("glibc", label)
        ]
        pairs["system calls"] = claimed("system calls", *calls)
        found = {name: (size.replace(",", ""), way, name) for size, way, name in CLAIM.findall(sentence)}
        assert "instructions in malloc and free" in found
        assert found == {name: pairs[name] for name in found}
        parts = time_table.frame(predicted).query("allocator == @label").set_index("part")["ns"]
        assert parts["all"] == pytest.approx(parts.drop("all").sum())
