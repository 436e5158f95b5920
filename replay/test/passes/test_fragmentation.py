# SPDX-License-Identifier: MIT
"""Fragmentation: on an allocator whose every OS page is known beforehand each figure is exact, in the results and in
the drawn picture; on real ones the parts are never negative and add up to RSS.

Long: parts of smaller objects; OS pages that the kernel moves meanwhile.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from heaptape import fragmentation
from heaptape.results.memory_map import decode, without_gaps
from heaptape.results.schema import Results
from heaptape.show import drawing
from heaptape.show.figures import memory_plots
from heaptape.tape.workload_format import read_workload
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .. import engine
from ..engine import OUT, PLANTED, make

REFERENCE = OUT / "lib/libreference.so"
OS_PAGE = 4096
COMPACT = Path("/proc/sys/vm/compact_memory")
# RssAnon itself is exact since Linux 6.17, and residency without the kernel's zero page since 6.7.
EXACT_RSS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 17)
needs_exact_rss = pytest.mark.skipif(not EXACT_RSS, reason="RssAnon is late before Linux 6.17")
OTHERS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2", "libtbbmalloc_proxy.so.2")
ALLOCATORS = [None, PLANTED, REFERENCE, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]


def memory_pass(path, *arguments, preload=PLANTED, **plants):
    return engine.memory_pass(path, *arguments, preload=preload, **plants) | {"allocator": "it"}


def results_of(run):
    return Results("made.json", {"runs": [run], "workload": {"name": "made", "ideal_rss_bytes": 1000}})


def typed(run):
    [one] = results_of(run).parsed.runs
    return one


def history(path):
    """For a workload of one thread with malloc and free only, after each op: the number of live objects of at least one
    byte, their bytes, and the number of objects so far, without those of 0 bytes."""
    ops = read_workload(path).ops_of(0)
    sizes, live, live_bytes, made, made_empty = {}, 0, 0, 0, 0
    rows = [(0, 0, 0, 0)]
    mallocs = ops["call"] == ops["call"].iloc[0]  # the first op must be one
    for is_malloc, size, slot in zip(mallocs, ops["size"], ops["slot"]):
        if is_malloc:
            sizes[slot] = int(size)
            made, made_empty = made + 1, made_empty + (size == 0)
        bytes_ = sizes[slot] if is_malloc else sizes.pop(slot)
        live += (bytes_ > 0) * (1 if is_malloc else -1)
        live_bytes += bytes_ * (1 if is_malloc else -1)
        rows.append((live, live_bytes, made, made_empty))
    return np.array(rows)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Objects of less than an OS page, one thread, only malloc and free."""
    path = tmp_path_factory.mktemp("fragmentation") / "small.work"
    make(path, ops=6000, threads=1, live_objects=300, size_limit=512, only_malloc_free=1)
    return path


@needs_exact_rss
def test_every_os_page_of_a_known_layout_is_right_at_every_position(small):
    """Each object has two OS pages, the second without content, and freed ones stay resident: the first OS page of a
    dead object is empty, the second one was never used."""
    run = memory_pass(small, OS_PAGES=1, KEEP_FREED=1)
    found = fragmentation.decode(typed(run))
    frame = found.frame
    assert found.os_page_bytes == OS_PAGE
    assert len(frame) > 250
    live, live_bytes, made, _ = history(small)[frame["position"]].T
    start = frame["never_used_bytes"].iloc[0]  # libc's thread block and the like
    assert frame["live_bytes"].tolist() == frame["live_resident_bytes"].tolist() == live_bytes.tolist()
    assert frame["rounding_bytes"].sum() == 0
    assert frame["beside_live_bytes"].tolist() == (live * OS_PAGE - live_bytes).tolist()
    assert frame["empty_bytes"].tolist() == ((made - live) * OS_PAGE).tolist()
    assert (frame["never_used_bytes"] - start).tolist() == (made * OS_PAGE).tolist()
    filled = [name for name in fragmentation.FILLS if name != "os_pages_0"]
    assert frame[filled].sum(axis=1).tolist() == live.tolist()
    assert frame["os_pages_0"].tolist() == (2 * made - live + start // OS_PAGE).tolist()
    # Objects are below 512 bytes: an eighth of an OS page.
    assert frame[["os_pages_10", "os_pages_20"]].sum(axis=1).tolist() == live.tolist()
    parts = fragmentation.decomposition(results_of(run))
    rest = parts["metadata_and_other_bytes"] - made * OS_PAGE
    assert rest.min() >= 0
    assert rest.max() <= 16 * OS_PAGE


@needs_exact_rss
def test_what_is_unmapped_is_forgotten(small):
    """Nothing is empty where free gives all memory back, although new objects are where old ones were."""
    frame = fragmentation.decode(typed(memory_pass(small, OS_PAGES=1))).frame
    live, _, _, _ = history(small)[frame["position"]].T
    assert frame["empty_bytes"].max() <= OS_PAGE * 20  # live objects of 0 bytes
    assert (frame["os_pages_10"] + frame["os_pages_20"]).tolist() == live.tolist()


@pytest.mark.long
@needs_exact_rss
@pytest.mark.skipif(not os.access(COMPACT, os.W_OK), reason="to have the kernel move OS pages takes root")
def test_os_pages_that_the_kernel_moves_meanwhile_are_resident(tmp_path):
    path = tmp_path / "many.work"
    make(path, ops=60000, threads=1, live_objects=3000, size_limit=512, only_malloc_free=1)
    with subprocess.Popen(["sh", "-c", f"while echo 1 >{COMPACT}; do :; done"]) as moves:
        try:
            frame = fragmentation.decode(typed(memory_pass(path, OS_PAGES=1))).frame
        finally:
            moves.kill()
    live, _, _, _ = history(path)[frame["position"]].T
    assert (frame["os_pages_10"] + frame["os_pages_20"]).tolist() == live.tolist()


def pixels_of_column(figure, axes, share):
    """RGB of the pixels of one column of an Axes, from bottom to top, as drawn."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255
    box = axes.get_window_extent()
    column = int(box.x0 + share * box.width)
    return image[int(np.ceil(box.y0)) + 1 : int(box.y1) - 1, column]


def test_every_second_os_page_empty_is_drawn_so(tmp_path):
    """The picture, read back: from the bottom up, cells of live and of resident-but-empty colour alternate."""
    path = tmp_path / "few.work"
    make(path, ops=3000, threads=1, live_objects=60, size_limit=512, only_malloc_free=1)
    run = memory_pass(path, OS_PAGES=1)
    compact = without_gaps(decode(typed(run).memory_map, "it"))
    assert compact.region_bytes == OS_PAGE
    figure = Figure(figsize=(8.2, 20))  # several pixels to an OS page
    axes = figure.subplots()
    memory_plots.memory_map(axes, compact)
    column = pixels_of_column(figure, axes, 0.97)
    # The lightest live colour: objects are at most an eighth of their OS page.
    colours = np.array([np.ones(3), drawing.rgb(drawing.EMPTY_COLOUR), drawing.fullness_colours()[15, :3]])
    distance = np.abs(column[:, None] - colours).sum(axis=2)
    kind = np.where(distance.min(axis=1) < 0.25, distance.argmin(axis=1), -1)  # -1: a dashed line, an edge
    empty, live = (kind == 1).mean(), (kind == 2).mean()
    assert empty > 0.25
    assert live == pytest.approx(empty, rel=0.25)
    runs = [k for k, before in zip(kind[1:], kind[:-1]) if k != before and k in (1, 2)]
    last = (compact.fullness[:, -2] > 0).sum()
    assert len(runs) > 1.5 * last  # many changes: they are mixed, not in two heaps


@pytest.mark.parametrize("preload", ALLOCATORS)
@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.long), 2])
def test_parts_are_never_negative_and_add_up_to_rss(tmp_path, preload, seed):
    """At each sampled position, of workloads of all calls, with large, unused, empty and reallocated objects, and
    threads that come and go."""
    path = tmp_path / "any.work"
    make(
        path, ops=10_000, threads=5, live_objects=400 * seed, remote_percent=30, size_limit=60_000 * seed**4, seed=seed
    )
    run = memory_pass(path, preload=preload)
    frame = fragmentation.decomposition(results_of(run))
    rss = {row[0]: row[1] for row in run["timeline"]}
    assert [rss[position] for position in frame["position"]] == frame["rss_anon_bytes"].tolist()
    assert (frame[list(fragmentation.PARTS)].sum(axis=1) == frame["rss_anon_bytes"]).all()
    lowest = frame[[*fragmentation.PARTS, "live_not_resident_bytes"]].min().min()
    assert lowest >= (0 if EXACT_RSS else -64 * 6 * OS_PAGE)
    raw = fragmentation.decode(typed(run)).frame
    assert raw["overlap_bytes"].max() == 0
    live = {row[0]: row[3] for row in run["timeline"]}
    assert [live[position] for position in raw["position"]] == raw["live_bytes"].tolist()
    fills = raw[list(fragmentation.FILLS)].sum(axis=1) * OS_PAGE
    inside = ["live_resident_bytes", "rounding_bytes", "beside_live_bytes", "empty_bytes", "never_used_bytes"]
    assert (raw[inside].sum(axis=1) == fills).all()


def test_the_heap_walk_covers_what_is_live(small):
    """For the reference allocator: the walk's used blocks hold all requests and their rounding, and the free bytes
    beside live objects equal those of the OS pages, except headers of 8 bytes each and the allocator's own blocks."""
    run = memory_pass(small, preload=REFERENCE)
    found = fragmentation.decode(typed(run))
    frame = found.frame
    assert found.walk_states == ("used", "tcache", "fast", "remainder", "small", "large", "top")
    for state in found.walk_states:
        resident = frame[f"walk_{state}_beside_live_bytes"] + frame[f"walk_{state}_empty_bytes"]
        assert (frame[f"walk_{state}_bytes"] >= resident).all(), state
    held = frame["live_resident_bytes"] + frame["rounding_bytes"]
    live, _, _, _ = history(small)[frame["position"]].T
    own = frame["walk_used_beside_live_bytes"] - held
    assert (own >= 8 * live).all()
    assert (own <= 8 * live + 8192).all()
    free = sum(frame[f"walk_{state}_beside_live_bytes"] for state in found.walk_states[1:])
    assert (frame["beside_live_bytes"] - free - own).abs().max() <= OS_PAGE  # the arena's own header


def test_orders_that_run_threads_side_by_side_report_nothing(small):
    assert memory_pass(small, "--order", "causal", preload=None)["fragmentation"] is None
