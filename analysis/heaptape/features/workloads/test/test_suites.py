# SPDX-License-Identifier: MIT
"""Suites: which are refused, and that a run makes missing files, once, and continues after a failure."""

from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.features.workloads import known as workloads
from heaptape.run import recipes

GOOD_SUITE = 'summary = "s"\nsource = "t"\nallocators = ["glibc"]\nrepeats = 2\n'
ONE = '[[workload]]\nname = "one"\nsynthetic = "cfrac"\noptions = ["--steps=5"]\n'
TWO = '[[workload]]\nname = "two"\napp = "broken"\n'
# Notes its arguments; `workloads capture broken` fails; otherwise the file after -o is made.
FAKE = """#!/bin/sh
echo "$*" >>"$(dirname "$0")/../calls"
case "$*" in *broken*) echo "heaptape: no such thing" >&2; exit 1;; esac
while [ "$1" != -o ]; do shift; done
echo made >"$2"
"""


def write_suite(folder: Path, text: str) -> workloads.Suite:
    path = folder / "set.toml"
    path.write_text(text)
    return workloads.read_suite(path)


def fake_home(folder: Path) -> Home:
    (folder / "bin").mkdir()
    (folder / "bin" / "heaptape").write_text(FAKE)
    (folder / "bin" / "heaptape").chmod(0o755)
    return Home(folder)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_every_suite_of_the_checkout_reads_and_its_recipes_are_there():
    known = {recipe.name for recipe in recipes.find()}
    found = workloads.find_suites()
    assert {suite.name for suite in found} >= {"tcache", "jemalloc-2005", "desktop-startup", "mtmalloc", "magazine"}
    assert [e.app for suite in found for e in suite.workloads if e.app and e.app not in known] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD_SUITE, "missing required field `workload`"),
        (GOOD_SUITE + ONE + ONE, "two workloads are called 'one'"),
        (GOOD_SUITE + "[[workload]]\nname = 'x'\n", "needs one of app, synthetic, corpus"),
        (GOOD_SUITE + "[[workload]]\nname = 'x'\napp = 'a'\ncorpus = 'c'\n", "workload\\[0\\]: .x. needs one of"),
        (GOOD_SUITE + "[[workload]]\nname = 'x'\nap = 'a'\n", "workload\\[0\\]: Object contains unknown field `ap`"),
        (GOOD_SUITE + "corners = ['a', 'b']\n" + ONE, "corners are four"),
        (GOOD_SUITE.replace("2", "0") + ONE, "repeats: Expected `int` >= 1"),
        ('summary = "s"\n' + ONE, "missing required field `source`"),
    ],
)
def test_a_malformed_suite_is_refused_by_name_and_key(tmp_path, text, complaint):
    with pytest.raises(HeaptapeError, match=complaint) as caught:
        write_suite(tmp_path, text)
    assert "set.toml" in str(caught.value)


def test_what_is_there_is_not_made_again(tmp_path):
    home, suite = fake_home(tmp_path), write_suite(tmp_path, GOOD_SUITE + ONE)
    workloads.run_suite(suite, tmp_path / "out", home)
    assert len(calls(tmp_path)) == 2
    assert calls(tmp_path)[0].endswith("one.tape -- cfrac --steps=5")
    again = workloads.run_suite(suite, tmp_path / "out", home)
    assert len(calls(tmp_path)) == 2
    assert again[0].reused == ["recording", "results"]


def test_a_workload_that_fails_is_reported_and_the_others_are_run(tmp_path):
    home, suite = fake_home(tmp_path), write_suite(tmp_path, GOOD_SUITE + TWO + ONE)
    outcomes = workloads.run_suite(suite, tmp_path / "out", home)
    assert outcomes[0].failure == "no such thing"
    assert not (tmp_path / "out" / "two.tape").exists()
    assert outcomes[1].results == tmp_path / "out" / "one.json"
    assert workloads.summary(outcomes)[0] == "two: not done: no such thing"


def test_the_allocators_and_repetitions_asked_for_replace_the_suites(tmp_path):
    home, suite = fake_home(tmp_path), write_suite(tmp_path, GOOD_SUITE + ONE)
    workloads.run_suite(suite, tmp_path / "out", home, allocators=["jemalloc", "mimalloc"], repeats=7)
    assert "-n 7 " in calls(tmp_path)[1]
    assert "-a jemalloc -a mimalloc" in calls(tmp_path)[1]


def test_only_takes_names_the_suite_has(tmp_path):
    home, suite = fake_home(tmp_path), write_suite(tmp_path, GOOD_SUITE + ONE)
    with pytest.raises(HeaptapeError, match="suite set has no workload 'three': it has one"):
        workloads.run_suite(suite, tmp_path / "out", home, only=["three"])
