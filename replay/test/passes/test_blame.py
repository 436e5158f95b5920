# SPDX-License-Identifier: MIT
"""The blame pass: on an allocator whose every address is known, each figure of each group is what the layout says; on
real ones the sums hold to the byte; damaged and foreign origins cause one line of error. Long: sums of smaller objects,
more damage.
"""

import base64
import json
import random
import zlib
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.line_sharing_model import text
from tests.support import CONVERT, OUT, succeed

from .. import engine
from ..engine import PLANTED, make
from ..test_engine import one_error
from . import blame_model
from .blame_model import FIGURES, GROUPINGS, Model, Origins
from .origins_file import NOTHING_BORN, names, origins

PLACING = OUT / "test-programs/libplacing.so"
REFERENCE = OUT / "lib/libreference.so"
OTHERS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")
ALLOCATORS = [None, PLANTED, REFERENCE, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
PROPERTY = examples(25)
STATES = ("live_resident_bytes", "rounding_bytes", "beside_live_bytes", "empty_bytes", "never_used_bytes",
          "beside_table_bytes")  # fmt: skip


def rows_of(blame):
    packed = zlib.decompress(base64.b64decode(blame["values"]))
    columns = blame["columns"]
    rows = np.frombuffer(packed, "<i8").reshape(len(columns), -1).T
    assert len(rows) == blame["rows"]
    return pd.DataFrame(rows, columns=columns)


def blame_pass(work, *arguments, preload=None, **plants):
    preloads = ["--preload", preload] if preload else []
    return engine.replay("--pass", "blame", *preloads, *arguments, work, **plants)


def assert_sums(run):
    """Asserts what must hold for every run."""
    blame, rows = run["blame"], rows_of(run["blame"])
    assert blame["rows_lost"] == 0
    positions = [position["position"] for position in blame["positions"]]
    assert positions == sorted(set(positions))
    assert [sum(why in position["why"] for position in blame["positions"]) for why in ("peak", "end")] == [1, 1]
    for at, position in enumerate(blame["positions"]):
        assert sum(position[state] for state in STATES) == position["rss_anon_bytes"]
        for grouping in range(len(GROUPINGS)):
            sums = rows[(rows["at"] == at) & (rows["grouping"] == grouping)].sum()
            assert sums["objects"] == position["live_objects"]
            assert sums["live_bytes"] == position["live_resident_bytes"]
            assert sums["rounding_bytes"] == position["rounding_bytes"]
            assert sums["empty_bytes"] == position["beside_live_bytes"]
    held = rows["live_bytes"] + rows["rounding_bytes"] + rows["empty_bytes"]
    assert (rows["alone_bytes"] <= held)[rows["group"] >= 0].all()
    assert (held <= rows["os_pages"] * blame["os_page_bytes"]).all()
    return rows


def random_origins(seed, steps, sites):
    """With this many sites besides the unknown one."""
    rng = random.Random(seed)
    functions = [0, *(rng.randrange(rng.randint(1, 8)) for _ in range(sites))]
    functions = [sorted(set(functions)).index(function) for function in functions]
    of_ops = [rng.randrange(len(functions)) if step.kind == "malloc" else NOTHING_BORN for step in steps]
    return Origins(of_ops, functions, sorted(rng.randrange(len(steps) + 1) for _ in range(rng.randrange(5))))


def compiled(tmp_path, steps):
    source, tape, work = (tmp_path / name for name in ("h.txt", "h.tape", "h.work"))
    source.write_text("# heaptape-text 1\n" + text(steps))
    succeed(CONVERT, "convert", source, tape)
    succeed(CONVERT, "compile", tape, "-o", work, "--json")
    return work


def folded(found, rows):
    """The model's groups of one grouping: those that the engine keeps, by number, and the others as one."""
    kept = {group for group in rows["group"] if group >= 0}
    others = Counter()
    for group in found.keys() - kept:
        others.update(found[group])
    return {group: found[group] for group in kept} | ({-1: others} if found.keys() - kept else {})


@PROPERTY
@example(seed=432, threads=1, steps=200, sites=0, round_bytes=16)  # the peak is the end, where nothing lives
@given(
    seed=st.integers(0, 1 << 32),
    threads=st.integers(1, 4),
    steps=st.integers(5, 400),
    sites=st.integers(0, 60),
    round_bytes=st.sampled_from([16, 48, 160, 4096]),
)
def test_each_figure_follows_from_the_layout(tmp_path, seed, threads, steps, sites, round_bytes):
    """For every group of every grouping, at requested positions and at others; and no kept group is smaller than a
    folded one."""
    steps = blame_model.random_history(seed, threads, steps)
    drawn = random_origins(seed, steps, sites)
    work, path = compiled(tmp_path, steps), tmp_path / "h.origins"
    path.write_bytes(origins(work, drawn.sites, drawn.functions, drawn.marks))
    asked = {len(steps) // 3, len(steps) // 2, 0}
    run = blame_pass(
        work, "--touch", "all", "--origins", path, "--positions", 6, *(f"--at={position}" for position in asked),
        f"--env=PLACE_ROUND_BYTES={round_bytes}", preload=PLACING,
    )  # fmt: skip
    rows = assert_sums(run)
    positions = run["blame"]["positions"]
    assert asked <= {position["position"] for position in positions}
    model, done, slots = Model(round_bytes), 0, blame_model.slots_of(work)
    for at, position in enumerate(positions):
        for number in range(done, position["position"]):
            model.take(number, steps[number], slots[number])
        done = position["position"]
        sums, found = blame_model.attribute(model, done, drawn)
        assert {key: position[key] for key in sums} == dict(sums)
        resident = sum(position[state] for state in STATES[:-1])
        for index, grouping in enumerate(GROUPINGS):
            here = rows[(rows["at"] == at) & (rows["grouping"] == index)]
            expected = folded({group: f for (g, group), f in found.items() if g == grouping}, here)
            measured = {row.group: {key: getattr(row, key) for key in FIGURES} for row in here.itertuples()}
            assert measured == {group: {key: f[key] for key in FIGURES} for group, f in expected.items()}
            if position["why"] != ["even"]:
                assert -1 not in measured
                continue
            held = (here["live_bytes"] + here["rounding_bytes"] + here["empty_bytes"]) * 1000
            assert (held[here["group"] >= 0] >= resident).all()
            assert (held[here["group"] < 0] < resident * here["groups"][here["group"] < 0]).all()
    named = {int(site): about["frames"] for site, about in run["blame"]["sites"].items()}
    assert set(named) == {group for group in rows[rows["grouping"] == 0]["group"] if group >= 0}
    frames = [frame["function"] for frame in run["blame"]["frames"]]
    assert [frames[number] for site in named for number in named[site]] == [
        f"f{drawn.functions[site]}" for site in named
    ]
    assert len(set(frames)) == len(frames)


@pytest.mark.parametrize("preload", ALLOCATORS)
@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.long), 2])
def test_sums_hold_to_the_byte_on_real_allocators(tmp_path, preload, seed):
    """Workloads of all calls, threads that come and go, large and empty objects; without origins. The states equal
    those of the fragmentation rows at the same positions."""
    path = tmp_path / "any.work"
    make(
        path, ops=10_000, threads=5, live_objects=400 * seed, remote_percent=30, size_limit=60_000 * seed**4, seed=seed
    )
    run = blame_pass(path, "--at", "live-peak", "--at", 4_321, preload=preload)
    rows = assert_sums(run)
    assert run["blame"]["origins"] is False
    assert set(rows[rows["grouping"].isin([0, 1, 4])]["group"]) <= {0}
    assert set(rows[rows["grouping"] == 2]["group"]) >= {0, 1, 2, 3, 4}
    packed = run["fragmentation"]
    values = np.frombuffer(zlib.decompress(base64.b64decode(packed["values"])), "<u8")
    frame = pd.DataFrame(
        values.reshape(len(packed["columns"]), -1).T, columns=packed["columns"], index=packed["positions"]
    )
    even = [position for position in run["blame"]["positions"] if {"even", "end"} & set(position["why"])]
    assert len(even) > 60
    for position in even:
        for state in STATES[:-1]:
            assert frame[state][position["position"]] == position[state]


def test_other_figures_are_those_of_the_memory_pass(tmp_path):
    """Time line, peaks, system calls; at the positions that both have, the same parts."""
    path = tmp_path / "mixed.work"
    make(path, ops=8_000, threads=4, live_objects=500, remote_percent=20, size_limit=40_000)
    blame, memory = blame_pass(path), engine.memory_pass(path, preload=None)
    for key in ("timeline", "rss_anon_peak_bytes", "rss_anon_peak_position", "syscalls", "live_bytes_peak", "held"):
        assert blame[key] == memory[key], key


def test_the_peak_is_within_a_thirty_second_of_the_highest_rss(tmp_path):
    """On an allocator that keeps nothing, whose RSS rises and falls with the live objects."""
    path = tmp_path / "falling.work"
    make(path, ops=15_000, threads=2, live_objects=900, size_limit=30_000, free_all=1)
    run = blame_pass(path, preload=PLANTED)
    peak = next(position for position in run["blame"]["positions"] if "peak" in position["why"])
    assert run["rss_anon_peak_bytes"] * 31 / 32 <= peak["rss_anon_bytes"] <= run["rss_anon_peak_bytes"]
    rows = rows_of(run["blame"])
    at = run["blame"]["positions"].index(peak)
    assert -1 not in set(rows[rows["at"] == at]["group"])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("blame") / "small.work"
    made = make(path, ops=500, threads=2, live_objects=40, remote_percent=30, only_malloc_free=1)
    return path, made["ops"]


def refused(work, *arguments):
    return one_error(engine.engine("--pass", "blame", "--null", *arguments, work))


def test_places_that_are_not_there_are_refused(small, tmp_path):
    work, ops = small
    assert f"position {ops + 1} is beyond the end, {ops}" in refused(work, "--at", ops + 1)
    assert 'no mark "warm": marks need --origins' in refused(work, "--at", "mark=warm")
    path = tmp_path / "small.origins"
    path.write_bytes(origins(work, [0] * ops, marks=[7]))
    assert 'no mark "warm"' in refused(work, "--origins", path, "--at", "mark=warm")
    run = blame_pass(work, "--origins", path, "--at", "mark=mark 0", "--at", ops, "--positions", 0)
    assert {(p["position"], *p["why"]) for p in run["blame"]["positions"] if p["why"] != ["peak"]} >= {(7, "asked")}
    assert run["blame"]["positions"][-1]["why"][:1] == ["asked"]


def test_origins_of_another_workload_are_refused(small, tmp_path):
    work, ops = small
    other, path = tmp_path / "other.work", tmp_path / "other.origins"
    make(other, ops=500, threads=2, live_objects=40, remote_percent=30, only_malloc_free=1, seed=2)
    path.write_bytes(origins(other, [0] * ops))
    assert "belongs to another workload" in refused(work, "--origins", path)
    assert "can't open" in refused(work, "--origins", tmp_path / "missing.origins")
    path.write_bytes(b"malloc(10)\n" * 20)
    assert "not an origins file" in refused(work, "--origins", path)


def test_each_wrong_entry_gives_one_error_with_its_place(small, tmp_path):
    work, ops = small
    path = tmp_path / "wrong.origins"
    tables = 64 + 4 * (ops + ops % 2)
    text_ = json.dumps(names([0, 1], [])).encode()
    for data, offset in [
        (origins(work, [0] * 9 + [2] + [0] * (ops - 10), [0, 1]), 64 + 9 * 4),
        (origins(work, [0] * ops, [0, 0], [3, ops + 1]), tables + 8),
        (origins(work, [0] * ops, [0, 0], [5, 3]), tables + 8),
        (origins(work, [0] * ops, [1, 1]), tables),
        (origins(work, [0] * (ops - 1)), 56),
        (origins(work, [0] * ops, [0], text=text_[:-1]), None),
        (origins(work, [0] * ops, [0], text=text_), tables + 4),
    ]:
        path.write_bytes(data)
        error = refused(work, "--origins", path)
        assert f"{path}: offset " in error
        assert offset is None or f"{path}: offset {offset}:" in error


@pytest.mark.parametrize(("seed", "mutants"), [(3, 15), pytest.param(7, 60, marks=pytest.mark.long)])
def test_damage_gives_one_error_or_a_replay(small, tmp_path, seed, mutants):
    work, ops = small
    rng = random.Random(seed)
    path = tmp_path / "random.origins"
    whole = origins(work, [rng.randrange(4) for _ in range(ops)], [0, 1, 2, 2], [3, 30])
    for mutant in range(mutants):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data[: rng.randrange(len(data))] if mutant % 5 == 0 else data))
        result = engine.engine("--pass", "blame", "--null", "--origins", path, work)
        if result.returncode != 0:
            assert f"{path}: offset " in one_error(result)
