# SPDX-License-Identifier: MIT
"""The memory map: decoding returns what the engine encoded, and compacting loses no cell."""

import base64
import contextlib
import zlib

import numpy as np
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.results.memory_map import DRAWN_GAP_REGIONS, without_gaps
from heaptape.results.schema import Results
from hypothesis import assume, given
from hypothesis import strategies as st
from planted_runs import map_of
from synthetic_results import encode_memory_map, encode_resident_map

cell_tables = st.lists(
    st.dictionaries(st.integers(0, 2**50), st.integers(1, 2**32 - 1), max_size=20), min_size=1, max_size=8
)


@given(cell_tables, st.sampled_from([4096, 65536]))
def test_decoding_undoes_encoding(cells, region_bytes):
    found = map_of(encode_memory_map(region_bytes, list(range(len(cells))), cells))
    back = [{} for _ in cells]
    for index, region, live in zip(found.position_index, found.region, found.live_bytes):
        back[index][int(region)] = int(live)
    assert back == cells
    assert found.region_bytes == region_bytes


@given(cell_tables)
def test_leaving_out_gaps_keeps_every_cell_in_address_order(cells):
    map_ = map_of(encode_memory_map(4096, list(range(len(cells))), cells))
    compact = without_gaps(map_)
    assert (compact.fullness > 0).sum() == sum(len(c) for c in cells)
    used = sorted({region for c in cells for region in c})
    assert len(compact.fullness) <= max(len(used) * DRAWN_GAP_REGIONS, 0)
    assert list(compact.addresses) == sorted(compact.addresses)
    for start, address in zip(compact.starts, compact.addresses):
        position = next(i for i, c in enumerate(cells) if int(address) // 4096 in c)
        assert compact.fullness[start, position] > 0


def test_a_region_that_emptied_is_distinguished_from_one_never_used():
    compact = without_gaps(map_of(encode_memory_map(4096, [0, 10, 20], [{}, {7: 2048}, {}])))
    assert np.isnan(compact.fullness[0, 0])
    assert compact.fullness[0, 1:].tolist() == [0.5, -1.0]


def test_resident_but_empty_is_distinguished_from_given_back():
    """Region 7 is live, then held, then given back, then held again without ever being live."""
    cells = [{7: (2048, 4096)}, {7: (0, 4096)}, {}, {7: (0, 4096)}, {7: (4096, 4096), 8: (1, 0)}]
    table = encode_resident_map(4096, list(range(5)), cells)
    decoded = map_of(table)
    assert decoded.resident_bytes.tolist() == [4096, 4096, 4096, 4096, 0]
    fullness = without_gaps(decoded).fullness
    assert fullness[0, [0, 1, 3, 4]].tolist() == [0.5, -1.0, -1.0, 1.0]
    assert np.isnan(fullness[0, 2])
    assert fullness[1, 4] > 0  # live, but never touched
    unknown = map_of(table | {"residency": "none"})
    assert unknown.resident_bytes is None
    assert without_gaps(unknown).fullness[0, 2] == -1.0


def test_a_run_without_a_map_has_none():
    assert Results("x.json", {"runs": [{"allocator": "a", "pass": "memory"}]}).memory_maps() == {}


@given(st.binary(max_size=60))
def test_any_cells_are_read_or_refused(raw):
    table = {"region_bytes": 4096, "positions": [0, 1], "encoding": "zlib+base64"}
    table["columns"] = ["region", "live_bytes", "resident_bytes"]
    table["cells"] = base64.b64encode(zlib.compress(raw)).decode()
    with contextlib.suppress(HeaptapeError):
        assert map_of(table).region_bytes == 4096


SOUND = encode_resident_map(4096, [0, 10], [{7: (1, 4096)}, {7: (0, 4096), 8: (1, 0)}])
OTHERS = {
    "region_bytes": st.integers(max_value=0),
    "encoding": st.text(),
    "columns": st.permutations(SOUND["columns"]) | st.lists(st.text()),
    "positions": st.lists(st.integers(0, 99)).filter(lambda found: len(found) != 2),
    "cells": st.text() | st.integers(0, len(SOUND["cells"]) - 1).map(lambda cut: SOUND["cells"][:cut]),
}


@given(st.one_of(*(st.tuples(st.just(key), other | st.none() | st.just(3)) for key, other in OTHERS.items())))
def test_a_map_of_which_any_part_is_another_is_refused(changed):
    assume(SOUND[changed[0]] != changed[1] and changed != ("region_bytes", 3))
    with pytest.raises(HeaptapeError, match="can't be read|memory_map.*: Expected"):
        map_of(SOUND | dict([changed]))
