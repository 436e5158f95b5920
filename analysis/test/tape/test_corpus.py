# SPDX-License-Identifier: MIT
"""workloads/corpus/: each recording is as recordings.tsv or the README describes it, and fit for its purpose.

Long: both readers, and replays, of all but three small ones; heaptape-convert counts every one even in the short run.
"""

import hashlib
import re
import tomllib
from functools import cache
from pathlib import Path

import heaptape as library
import pytest

from tests.support import call_heaptape, info

CORPUS = Path(__file__).resolve().parents[3] / "workloads" / "corpus"
LINES = [line for name in ("recordings.tsv", "README.md") for line in (CORPUS / name).read_text().splitlines()]
RECORDINGS = sorted(path.name for path in CORPUS.iterdir() if path.suffix not in (".md", ".toml", ".tsv"))
TAPES = [name for name in RECORDINGS if name.endswith(".tape")]
info_of = cache(lambda name: info(CORPUS / name))
SMALL = ("sqlite3.tape", "redis.tape", "memcached.tape")
FEW = [name if name in SMALL else pytest.param(name, marks=pytest.mark.long) for name in TAPES]


def row_of(name: str) -> list[str]:
    """The cells of its line in recordings.tsv, or in the README where it is from elsewhere."""
    (line,) = [line for line in LINES if line.startswith((f"{name}\t", f"| `{name}` |"))]
    return [cell.strip(" `") for cell in re.split(r"\t|\|", line.strip("|"))]


def test_the_corpus_is_what_its_plan_names_and_small():
    assert [f"{name}.tape" for name in sorted(tomllib.loads((CORPUS / "corpus.toml").read_text()))] == TAPES
    assert sum((CORPUS / name).stat().st_size for name in TAPES) < 4 << 20


@pytest.mark.parametrize("name", RECORDINGS)
def test_each_file_has_the_hash_that_its_line_gives(name):
    assert row_of(name)[-1] == hashlib.sha256((CORPUS / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", TAPES)
def test_each_is_legal_and_as_its_line_describes_it(name):
    about = info_of(name)
    assert about["ok"]
    assert about["dropped"] == 0
    row = row_of(name)
    assert row[2:5] == [f"{about['events']:,}", f"{about['threads']}", f"{(CORPUS / name).stat().st_size:,}"]


@pytest.mark.parametrize("name", FEW)
def test_both_readers_count_the_same_events(name):
    about = info_of(name)
    calls, threads = {}, set()
    with library.open(CORPUS / name) as trace:
        for frame in trace.frames():
            threads.update(frame["thread"].unique())
            for call, count in frame["call"].value_counts().items():
                calls[str(call)] = calls.get(str(call), 0) + int(count)
    assert {call: count for call, count in calls.items() if count} == about["calls"]
    assert len(threads) == about["threads"]


@pytest.mark.parametrize("name", FEW)
def test_each_replays_and_keeps_its_promises(name, tmp_path):
    done = call_heaptape("replay", CORPUS / name, "-a", "glibc", "--verify", "-n", "1", "-o", tmp_path / "r.json")
    assert done.status == 0, done.stderr
    assert "verification passed" in done.stdout


@pytest.mark.parametrize("name", TAPES)
def test_no_recording_has_real_addresses_times_or_names(name):
    about = info_of(name)
    assert not {"program", "pid", "parent_pid", "start_unix_ns", "arguments", "host"} & set(about["info"]), about[
        "info"
    ]
    assert not re.search(rb"/(home|root|tmp|usr)/", (CORPUS / name).read_bytes())
