# SPDX-License-Identifier: MIT
"""Pieces of a history: a written piece is legal, and has the requested calls."""

import json
from dataclasses import replace

import numpy as np
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.features.gate.search import Candidate, Search, read_objects, whole_history, write_candidate
from heaptape.features.gate.test.pieces import make_workload
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.support import CONVERT, call_heaptape, check, compile_trace, succeed

HOME = default_home()


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    return make_workload(tmp_path_factory.mktemp("pieces"))


@pytest.fixture(scope="module")
def objects(workload):
    return read_objects(workload)


def ops_of(workload):
    """The ops without waits, which depend on the slots."""
    lines = succeed(CONVERT, "dump", workload, "--format", "jsonl").stdout.splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "waits"} for line in lines]


def test_the_whole_as_a_tape_compiles_to_the_workload_again(workload, objects, tmp_path):
    tape = tmp_path / "whole.tape"
    assert write_candidate(workload, whole_history(objects), tape, HOME) == objects.ops
    assert ops_of(compile_trace(tape)) == ops_of(workload)


@examples(40)
@given(data=st.data())
def test_every_piece_is_a_legal_history_of_the_calls_that_were_asked_for(data, workload, objects, tmp_path):
    share = data.draw(st.floats(0, 1))
    luck = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    piece = Candidate(
        luck.random(len(objects.table)) < share,
        data.draw(st.integers(0, objects.ops)),
        frozenset(data.draw(st.sets(st.sampled_from([1, 2])))),
    )
    tape = tmp_path / "piece.tape"
    events = write_candidate(workload, piece, tape, HOME)
    assert events == objects.events(piece.keep, piece.end)
    witness = check(tape)
    assert witness["ok"]
    assert witness["events"] == events
    if events:
        compiled = compile_trace(tape)
        assert check(compiled)["ok"]
        kept = [op for op, one in zip(ops_of(workload)[: piece.end], objects.of_op) if piece.keep[one]]
        called = ("call", "size_bytes", "count", "align_bytes", "null", "frees", "time_ns")
        assert [[op.get(key) for key in called[:-1]] for op in ops_of(compiled)] == [
            [op.get(key) for key in called[:-1]] for op in kept
        ]
        threads = {op["thread"] for op in ops_of(compiled)}
        assert len(threads) == len({0 if op["thread"] in piece.joined else op["thread"] for op in kept})


def test_a_keep_file_of_another_workload_is_refused(workload, objects, tmp_path):
    piece = whole_history(objects)
    with pytest.raises(HeaptapeError, match=r"objects, the list has 1$"):
        write_candidate(workload, replace(piece, keep=piece.keep[:1]), tmp_path / "piece.tape", HOME)
    assert not list(tmp_path.iterdir())


def first_that_holds(holds):
    def find(wanted):
        return next(((number, one) for number, one in enumerate(wanted) if holds(one)), None)

    return find


@given(data=st.data())
@examples(20)
def test_the_search_leaves_just_the_objects_that_are_needed(data, objects):
    needed = sorted(data.draw(st.sets(st.integers(0, len(objects.table) - 1), min_size=1, max_size=3)))
    born = objects.table["born"].to_numpy()[needed].max()

    def holds(piece):
        return bool(piece.keep[needed].all()) and piece.end > born

    search = Search(objects, whole_history(objects), first_that_holds(holds))
    search.run()
    assert list(np.flatnonzero(search.best.keep)) == needed
    assert search.best.end <= objects.ops
    assert search.best.joined == {1, 2}


def test_a_search_that_is_ended_has_the_best_so_far(objects):
    tried = []

    def holds(piece):
        tried.append(piece)
        if len(tried) > 2:
            raise KeyboardInterrupt
        return True

    search = Search(objects, whole_history(objects), first_that_holds(holds))
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert search.best is tried[1]


def test_american_spellings_are_accepted():
    assert call_heaptape("minimize", "--help").stdout == call_heaptape("minimise", "--help").stdout != ""
