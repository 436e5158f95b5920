# SPDX-License-Identifier: MIT
"""A program of fifty sites, one of which leaves one small object in each OS page, recorded with its stacks: under each
allocator the blame pass ranks that site, its thread, size, phase and age first by empty bytes, with the share that the
layout implies; and the origins file describes what the program did.
"""

import base64
import json
import struct
import zlib

import numpy as np
import pandas as pd
import pytest

from tests.support import CONVERT, OUT, RECORD, REPLAY, run, succeed

PROGRAM = OUT / "test-programs/planted_pinner"
PINNERS = 1000
OS_PAGE, PINNED, BLOCK = 4096, 248, 256
OTHERS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")
ALLOCATORS = [None, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The workload and its origins file."""
    folder = tmp_path_factory.mktemp("planted")
    tape, work, origins = (folder / f"p.{end}" for end in ("tape", "work", "origins"))
    succeed(RECORD, "--stacks", "-o", tape, "--", PROGRAM, str(PINNERS))
    succeed(CONVERT, "compile", tape, "-o", work, "--origins", origins)
    return work, origins


def names_in(origins):
    data = origins.read_bytes()
    return json.loads(data[len(data) - struct.unpack_from("<Q", data, 48)[0] :])


def born_sites(origins):
    """The sites by position; 0xffffffff: no object is born."""
    data = origins.read_bytes()
    return np.frombuffer(data, "<u4", struct.unpack_from("<Q", data, 24)[0], 64)


def at_the_end(work, origins, preload):
    """The position, and its rows by grouping, those with most empty bytes first."""
    preloads = ["--preload", preload] if preload else []
    printed = succeed(REPLAY, "--pass", "blame", *preloads, "--positions", "4", "--origins", origins, work).stdout
    blame = json.loads(printed)["blame"]
    values = np.frombuffer(zlib.decompress(base64.b64decode(blame["values"])), "<i8")
    rows = pd.DataFrame(values.reshape(len(blame["columns"]), -1).T, columns=blame["columns"])
    last = len(blame["positions"]) - 1
    rows = rows[rows["at"] == last].sort_values("empty_bytes", ascending=False)
    return blame, {name: rows[rows["grouping"] == index] for index, name in enumerate(blame["groupings"])}


@pytest.mark.parametrize("preload", ALLOCATORS)
def test_the_planted_pinner_is_first_in_every_grouping(planted, preload):
    """With one pinner in each 16 blocks of 256 bytes, the rest of its OS page is empty: 3,840 bytes."""
    work, origins = planted
    blame, rows = at_the_end(work, origins, preload)
    first = {grouping: rows[grouping].iloc[0] for grouping in rows}
    assert blame["sites"][str(first["site"]["group"])]["name"] == "pin_here < pin"
    assert blame["functions"][str(first["function"]["group"])] == "pin_here"
    assert first["thread"]["group"] == 1
    assert first["size"]["group"] <= PINNED < first["size"]["group"] * 5 // 4
    assert blame["marks"][first["phase"]["group"] - 1]["name"] == "pin"
    implied = PINNERS * (OS_PAGE - BLOCK)
    for grouping in ("site", "function", "size"):
        group = first[grouping]
        assert group["objects"] == PINNERS
        assert group["live_bytes"] == PINNERS * PINNED
        assert group["empty_bytes"] == pytest.approx(implied, rel=0.05)
        assert group["alone_bytes"] == pytest.approx(PINNERS * OS_PAGE, rel=0.05)
        assert group["live_bytes"] < rows[grouping]["live_bytes"].iloc[1:].sum() / 100
    for grouping in ("thread", "phase", "age"):
        assert first[grouping]["empty_bytes"] == pytest.approx(implied, rel=0.05), grouping
    end = blame["positions"][-1]
    assert first["site"]["empty_bytes"] > 0.8 * end["beside_live_bytes"]


def test_origins_have_the_program_s_sites_and_marks(planted):
    """Each function has its own objects; a mark is before the first op that follows it."""
    work, origins = planted
    names, born = names_in(origins), born_sites(origins)
    sites = names["sites"]
    function_of = [names["functions"][site["function"]] for site in sites]
    counts = pd.Series([function_of[site] for site in born if site != 0xFFFFFFFF]).value_counts()
    dense, temporary = 40 * PINNERS, 15 * PINNERS
    assert counts["pin_here"] == PINNERS
    others = counts[[name for name in counts.index if name.startswith("site_")]]
    assert len(others) == 49
    assert others.sum() == dense + temporary + 3 * PINNERS // 4
    assert others.drop("site_10").max() - others.drop("site_10").min() <= 2
    assert (born == 0xFFFFFFFF).sum() >= temporary
    assert [mark["name"] for mark in names["marks"]] == ["dense", "pin", "drop"]
    at = {mark["name"]: mark["position"] for mark in names["marks"]}
    assert (born[at["dense"] : at["dense"] + dense] != 0xFFFFFFFF).all()
    pinned = np.array([function == "pin_here" for function in function_of])
    of_pinner = [site != 0xFFFFFFFF and pinned[site] for site in born]
    assert all(at["pin"] < position < at["drop"] for position in np.flatnonzero(of_pinner))
    assert (born[at["drop"] : at["drop"] + temporary] == 0xFFFFFFFF).all()
    assert [mark["thread"] for mark in names["marks"]] == [0, 0, 1]
    assert names["lacks"] == []
    frames = [names["frames"][index] for index in sites[int(np.flatnonzero(pinned)[0])]["frames"]]
    assert [frame["function"] for frame in frames[:2]] == ["pin_here", "pin"]
    assert {frame.get("module") for frame in frames[:2]} == {"planted_pinner"}


def test_a_trace_without_stacks_has_one_site_and_its_marks(tmp_path):
    """The pass still answers by thread, size, phase and age."""
    tape, work, origins = (tmp_path / f"p.{end}" for end in ("tape", "work", "origins"))
    succeed(RECORD, "-o", tape, "--", PROGRAM, "100")
    succeed(CONVERT, "compile", tape, "-o", work, "--origins", origins)
    names = names_in(origins)
    assert names["lacks"] == ["stacks"]
    assert [site["name"] for site in names["sites"]] == names["functions"] == ["no stack known"]
    assert [mark["name"] for mark in names["marks"]] == ["dense", "pin", "drop"]
    blame, rows = at_the_end(work, origins, None)
    assert rows["site"]["group"].tolist() == rows["function"]["group"].tolist() == [0]
    assert blame["marks"][rows["phase"].iloc[0]["group"] - 1]["name"] == "pin"
    assert rows["size"].iloc[0]["group"] == 224
    assert blame["sites"]["0"] == {
        "stack": 0, "function": 0, "name": "no stack known", "frames": [], "births": sum(born_sites(origins) == 0),
    }  # fmt: skip


def test_compiled_with_origins_it_is_the_same_workload(planted, tmp_path):
    work, origins = planted
    again = tmp_path / "again.work"
    succeed(CONVERT, "compile", work.with_suffix(".tape"), "-o", again)
    assert again.read_bytes() == work.read_bytes()
    refused = run(CONVERT, "compile", work.with_suffix(".tape"), "-o", again, "--origins", tmp_path / "no/such.origins")
    assert refused.status == 1
    assert len(refused.stderr.splitlines()) == 1
