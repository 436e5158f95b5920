# SPDX-License-Identifier: MIT
"""Every fuzz target survives its seeds and mutants of them, in which bytes are changed, cut and doubled.

`make fuzz` searches further, for longer and under sanitizers; inputs that it finds are added to the seeds here.
Long: 1,500 mutants per target. The readers' errors have separate tests (test_wrong_input.py, convert/test/).
"""

import importlib
import random
import resource
import subprocess
from pathlib import Path

import pytest

from convert.test.models.access_maker import add_accesses, block_of, made_rows
from convert.test.models.history_maker import legal
from convert.test.models.history_model import text as history_text
from convert.test.models.tape_maker import EVENTS, Tape
from tests.support import CONVERT, OUT, REPOSITORY, convert, import_text, record, succeed, workload

TARGETS = sorted(path.name for path in (OUT / "fuzz-corpus").glob("fuzz_*"))
pytestmark = pytest.mark.long

MUTANTS = 1500
GROUPS = (
    "site=12,40=remove",
    "function=parse_*,z*alloc&size=1k..64k=segregate",
    "frame=*ssl*.so*&thread=..5,7=pool=64k",
    "phase=warm,2..3,*=late",
    "size=0..=early",
)
PLACEMENT = """# heaptape run --place THIS -- CMD
version = 1
program = "redis-server"

[predicted]
peak_rss_before = 1234567

[[site]]
region = 1
function = "sdsnew (sds.c:155)"
frames = [
  "dd4aee2b97ea99a569846f0920fd2c9cb0e0ab9f+0x16c3",
  "dd4aee2b97ea99a569846f0920fd2c9cb0e0ab9f+0xffff", # its caller
]
"""
MEMORY_BYTES = 1 << 30


def mutant(source: random.Random, seed: bytes) -> bytes:
    """The seed with one to four bytes changed, and sometimes a piece cut out or doubled."""
    content = bytearray(seed)
    for _ in range(source.randint(1, 4)):
        content[source.randrange(len(content))] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
    begin, end = sorted(source.randrange(len(content) + 1) for _ in range(2))
    change = source.random()
    if change < 0.2:
        del content[begin:end]
    elif change < 0.3:
        content[begin:begin] = content[begin : min(end, begin + 4096)]
    return bytes(content)


def archive_of(tape: Path) -> Path:
    """Its archive, beside it."""
    out = tape.with_suffix(".archive.tape")
    convert("--archive", tape, out)
    return out


def column_seed(archive: Path) -> bytes:
    """The first block of events of an archive, as fuzz_trace_read takes columns."""
    block = Tape.read(archive).first(EVENTS)
    stamps = [block.first_stamp & 255, block.last_stamp & 255, block.last_stamp >> 8 & 255]
    raw = {column.id: column.raw[:255] for column in block.columns}
    columns = b"".join(bytes([len(raw.get(i, b""))]) + raw.get(i, b"") for i in range(1, max(raw) + 1))
    return bytes([1, block.rows - 1 & 255, block.steps - block.rows & 255, *stamps, 64, 0, 0]) + columns


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Seeds by target: real traces and workloads for the readers, the importers' samples, text for rewriting."""
    folder = tmp_path_factory.mktemp("corpus")
    for path in REPOSITORY.glob("*/fuzz/*_seeds.py"):
        importlib.import_module(f"{path.parts[-3]}.fuzz.{path.stem}").fill(folder)
    tape, archive, work = folder / "t.tape", folder / "a.tape", folder / "t.work"
    record(tape, workload("many_threads"), "--threads=4", "--turns=5")
    convert("--archive", tape, archive)
    succeed(CONVERT, "compile", tape, "-o", work)
    text = succeed(CONVERT, "dump", tape).stdout.encode()[:8192]
    seeds = {path.name: [file.read_bytes() for file in path.iterdir()] for path in folder.iterdir() if path.is_dir()}
    # The first byte of fuzz_trace_read chooses between a whole file and the columns of a block, of events or accesses.
    events = legal(7, 1, 40, 5)
    with_accesses = import_text(folder, history_text(events, 1))
    rows = made_rows(7, events, 3)
    add_accesses(with_accesses, rows)
    columns = {column.id: column.raw for column in block_of(rows[:60], 0).columns}
    cut = b"".join(bytes([len(columns.get(i, b""))]) + columns.get(i, b"") for i in range(1, 9))
    accesses = [b"\0" + with_accesses.read_bytes(), bytes([3, 59, 0, block_of(rows[:60], 0).last_stamp]) + cut]
    archived = [column_seed(archive_of(with_accesses))]
    traces = (
        accesses + archived + [bytes([chooser]) + path.read_bytes() for path in (tape, archive) for chooser in range(4)]
    )
    return seeds | {
        "fuzz_trace_read": traces,
        "fuzz_workload": [work.read_bytes()],
        "fuzz_group": [f"{group}\nzmalloc\nzrealloc\n\nlibssl.so.3".encode() for group in GROUPS],
        "fuzz_plan": [PLACEMENT.encode(), PLACEMENT.replace(" = ", "=").encode() * 2],
        "fuzz_rewrite": [bytes([window, 200, kind]) + text for window in (0, 60) for kind in range(4)],
    }


def test_every_target_is_known() -> None:
    assert sorted(path.stem for path in REPOSITORY.glob("*/*/fuzz_*.c")) == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_target_survives_its_seeds_and_mutants(target: str, corpus: dict[str, list[bytes]], tmp_path: Path) -> None:
    source = random.Random(target)
    inputs = [*corpus[target], b"", *(mutant(source, source.choice(corpus[target])) for _ in range(MUTANTS))]
    files = []
    for number, content in enumerate(inputs):
        files.append(tmp_path / f"input-{number}")
        files[-1].write_bytes(content)
    done = subprocess.run(
        [OUT / "fuzz-corpus" / target, *files],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    printed = done.stdout.splitlines()
    assert done.returncode == 0, f"exit status {done.returncode} at {printed[-1:]}: {done.stderr[-2000:]}"
    assert len(printed) == len(files)
