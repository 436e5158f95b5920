# SPDX-License-Identifier: MIT
"""The store: its files are whole, or their damage is found; no name in it leads out of it."""

import itertools
import os
import subprocess

import msgspec
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet.files import StoreError
from heaptape.features.fleet.plan import requested
from heaptape.features.fleet.store import Cell, Record, open_store, sealed, unsealed
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.support import small_disk

HASH = "0" * 64


def cell(**changes):
    given = {"workload": HASH, "allocator": "glibc", "library": HASH, "pass_": "memory", "order": "recorded"}
    return Cell(**given | {"engine": HASH, "version": "1"} | changes)


def record(number):
    result = {"allocator": "glibc", "pass": "memory", "page_faults": number}
    return Record((cell(repetition=number),), (result,), "m", 1.0, False, 1.0)


def test_each_part_of_the_specification_but_the_name_of_settings_is_in_the_key():
    changes = {"workload": "1" * 64, "allocator": "other", "library": "2" * 64, "environment": (("A", "b"),)}
    changes |= {"pass_": "verify", "order": "window", "repetition": 1, "engine": "3" * 64, "version": "2"}
    changes |= {"beside": ("4" * 64,), "companion": "5" * 64, "caches": "1:2", "tlbs": "1:2"}
    assert {*changes, "variant"} == set(Cell.__struct_fields__)
    keys = {cell(**{name: value}).key for name, value in changes.items()} | {cell().key}
    assert len(keys) == len(changes) + 1
    assert cell(variant="x").key == cell().key == msgspec.convert(msgspec.to_builtins(cell()), Cell).key


@examples(30)
@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False) | st.text(max_size=20), max_size=3), st.data())
def test_a_sealed_file_is_read_as_it_was_and_a_flipped_bit_or_a_cut_is_found(value, data):
    text = sealed({"value": value})
    assert unsealed(text)["value"] == value
    place = data.draw(st.integers(0, len(text) - 1))
    flipped = bytearray(text)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    for damaged in (bytes(flipped), text[:place]):
        with pytest.raises(ValueError, match="."):
            unsealed(damaged)


@pytest.mark.parametrize(
    "name", ["../x", "cells/../../x", "/etc/passwd", "cells/.hidden", "a//b", "a/b/c/d/e/f/g", "", "x\n"]
)
def test_no_name_leads_out_of_the_store(name, tmp_path):
    store = open_store(str(tmp_path / "s"), create=True)
    with pytest.raises(HeaptapeError, match="is not a name in a store"):
        store.files.write(name, b"x")


@pytest.mark.parametrize(
    "change",
    [{"workload": "../../etc/passwd"}, {"library": "x"}, {"workload": HASH + "\n"}, {"allocator": "../a"}]
    + [{"environment": [["LD_PRELOAD", "/tmp/x.so"]]}, {"environment": [["A=B", "c"]]}, {"pass": "time;rm"}]
    + [{"beside": ["/x.so"]}, {"companion": "../x"}, {"caches": "$(x)"}, {"extra": 1}],
    ids=str,
)
def test_a_cell_that_somebody_else_wrote_is_refused_where_it_is_none(change):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(msgspec.to_builtins(cell()) | change, Cell)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('tapes = ["../secret.tape"]', "leads out of the plan's folder"),
        ('tapes = ["/etc/passwd"]', "leads out of the plan's folder"),
        ('tapes = ["link/x.tape"]', "leads out of the plan's folder"),
        ('allocators = ["../../lib.so:A=1"]', "leads out of the plan's folder"),
        ('passes = ["nosuch"]', "unknown pass 'nosuch'"),
        ("repetitions = 0", "repetitions"),
        ('store = "/"', "unknown field `store`"),
        ("tapes = [", "plan.toml"),
        ("tapes = " + "[" * 10_000 + "]" * 10_000, "plan.toml"),
        ("repetitions = 1" + "0" * 10_000, "plan.toml"),
    ],
)
def test_a_plan_leads_to_nothing_but_what_lies_beside_it(text, says, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    (tmp_path / "link").symlink_to("/tmp")
    with pytest.raises(HeaptapeError) as error:
        requested([str(plan)])
    assert says in str(error.value)


def test_a_plan_finds_what_lies_beside_it(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('tapes = ["a/b.tape"]\nallocators = ["glibc", "a/lib.so:A=1"]\n[weights]\nb = 2\n')
    found = requested([str(plan)])
    assert found.tapes == (str(tmp_path / "a" / "b.tape"),)
    assert found.allocators == ("glibc", f"{tmp_path}/a/lib.so:A=1")
    assert found.weights == {"b": 2.0}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_full_disk_leaves_whole_cells_and_continues_when_there_is_room(tmp_path):
    with small_disk(tmp_path / "small", "64k") as folder:
        store = open_store(str(folder), create=True)
        wrote = []

        def write() -> None:
            for number in itertools.count():
                store.put_record(record(number))
                wrote.append(number)

        with pytest.raises(StoreError, match="No space left"):
            write()
        assert sorted(one.cells[0].repetition for one in store.records()) == wrote
        assert not list(folder.rglob("*.partial"))
        subprocess.run(["mount", "-o", "remount,size=1m", str(folder)], check=True)
        store.put_record(record(len(wrote)))
        assert len(store.keys()) == len(wrote) + 1


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/x", "s3://bucket/x?api_key=secret", "http://u:secret@h/"])
def test_a_url_with_a_password_is_refused_and_not_shown(url):
    with pytest.raises(HeaptapeError, match="would be shown to everybody") as error:
        open_store(url)
    assert "secret" not in str(error.value)


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(HeaptapeError, match="no store"):
        open_store(str(tmp_path / "none"))
    with pytest.raises(HeaptapeError, match="no store, and not empty"):
        open_store(str(tmp_path), create=True)
    with pytest.raises(HeaptapeError, match="no store"):
        open_store("nosuchscheme://x")
    open_store(str(tmp_path / "s"), create=True).put("store.json", {"version": 9})
    with pytest.raises(HeaptapeError, match="version 9"):
        open_store(str(tmp_path / "s"))
