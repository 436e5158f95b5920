# SPDX-License-Identifier: MIT
"""The trace that `reduce` makes of a workload has the ops of the objects that were asked for, and no others."""

import random

from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.history_maker import in_turn
from convert.test.models.history_model import text
from convert.test.test_history import compiled
from tests.examples import examples
from tests.support import CONVERT, check, compile_trace, import_text, refused, succeed


def numbered(rows: list[tuple]) -> list[tuple]:
    """Threads and objects by their first appearance."""
    threads: dict[int, int] = {}
    objects: dict[int, int] = {}
    return [
        (threads.setdefault(thread, len(threads)), call, of and objects.setdefault(of, len(objects) + 1), *rest)
        for thread, call, of, *rest in ((*row[:2], row[2] if row[2] is None else row[2] + 1, *row[3:]) for row in rows)
    ]


@examples(40)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(1, 80),
    addresses=st.integers(1, 9),
    share=st.sampled_from([0.3, 0.8, 1.0]),
    end=st.one_of(st.none(), st.integers(0, 90)),
    joined=st.sets(st.sampled_from([1, 2])),
)
def test_reduced_trace_has_the_ops_of_the_objects_that_are_kept(tmp_path, seed, steps, addresses, share, end, joined):
    events, threads = in_turn(seed, steps, addresses)
    work = compile_trace(import_text(tmp_path, text(events, threads)))
    rows, kept, luck = compiled(work), bytearray(), random.Random(seed)
    chosen: dict[int, int] = {}  # by object
    wanted = []
    for position, row in enumerate(rows):
        if row[2] is None or row[2] not in chosen:  # an op without object counts as one
            kept.append(luck.random() < share)
            chosen[-1 if row[2] is None else row[2]] = kept[-1]
        if chosen[-1 if row[2] is None else row[2]] and (end is None or position < end):
            wanted.append((0 if row[0] in joined else row[0], *row[1:]))
    (tmp_path / "kept").write_bytes(kept)
    number_of_threads = 1 + max((row[0] for row in rows), default=0)
    options = [word for thread in joined if thread < number_of_threads for word in ("--join", str(thread))]
    out, options = tmp_path / "out.tape", [*options, *([] if end is None else ["--end", str(end)])]
    if not rows:
        return
    said = succeed(CONVERT, "reduce", work, "-o", out, "--keep", tmp_path / "kept", "--json", *options).stdout
    assert f'"events": {len(wanted)}' in said
    assert check(out)["ok"]
    if wanted:
        assert numbered(compiled(compile_trace(out))) == numbered(wanted)


def test_what_cannot_be_reduced_is_one_line(tmp_path):
    work, out = compile_trace(import_text(tmp_path, "1 0 malloc(8) = 0x1000\n")), tmp_path / "out.tape"
    (tmp_path / "kept").write_bytes(b"\1\1")
    refused(CONVERT, "reduce", work, "-o", out, "--join", "7", says="has no thread 7")
    refused(CONVERT, "reduce", work, "-o", out, "--keep", tmp_path / "none", says="can't read")
    refused(CONVERT, "reduce", work, "-o", out, "--keep", tmp_path / "kept", says="has 1 objects, the list has 2")
    for words in ([], ["-o", "-"]):
        refused(CONVERT, "reduce", work, *words, says="reduce needs -o", status=2)
    refused(CONVERT, "reduce", work, "-o", "/dev/full", says="/dev/full")
    assert not out.exists()
