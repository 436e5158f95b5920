# SPDX-License-Identifier: MIT
"""Touch truth brings a replay on the recording's own allocator to the recorded peak. pytest -rP prints the figures."""

import json
import re
from pathlib import Path

import pytest

from tests.support import CONVERT, OUT, RECORD, compile_c, info, need, record, run, succeed

REPLAY = OUT / "libexec" / "heaptape-replay"
SQL = (
    "pragma cache_size=-200000; create table t(a, b);"
    " with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)"
    " insert into t select i, 'x' || i from n; create index q on t(b);"
    " select count(*), sum(length(b)) from t where b like '%7%';"
    " select hex(zeroblob(3000000)) like 'x'; select group_concat(b) like 'z' from t;"
)
# bytes(n) is calloc: memory that is not touched unless it is copied.
SPARSE = (
    "import time; a = [bytes(4 << 20) for _ in range(30)]; b = [bytes(8 << 20)[: i << 18] for i in range(30)];"
    " time.sleep(0.1); del a, b"
)
PROGRAMS = {"sqlite3": ("sqlite3", ":memory:", SQL, ".shell sleep 0.3"), "python3": ("/usr/bin/python3", "-c", SPARSE)}


def replayed_peak_bytes(trace: Path) -> int:
    """Peak RssAnon of a replay on glibc, without the engine's own."""
    work = trace.with_suffix(".work")
    assert run(CONVERT, "compile", trace, "-o", work).status == 0
    baseline = json.loads(run(REPLAY, "--baseline", work).stdout)["rss_anon_bytes"]
    options = ("--pass", "memory", "--order", "recorded", "--touch", "recorded", "--baseline-rss-anon-bytes")
    result = run(REPLAY, *options, str(baseline), work)
    assert result.status == 0, result.stderr
    return int(json.loads(result.stdout)["rss_anon_peak_bytes"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_replay_reaches_the_recorded_peak(tmp_path: Path, name: str) -> None:
    """At least the sampled RssAnon minus 15 % and 6 MiB of the program's own data, which no replay has, and at most the
    kernel's exact peak of the whole RSS. Without touch truth it stays far below, as large objects are not touched.

    The samples are 10 ms apart and miss a short peak on a busy machine, so they bound it from below only; the programs
    linger after their peak, so that the kernel's figure is read after it.
    """
    command = PROGRAMS[name]
    need(command[0])
    peaks = {}
    for least in ("0", "65536"):
        trace = tmp_path / f"{least}.tape"
        result = run(RECORD, "-o", trace, "--touch-min", least, "--", *command)
        assert result.status == 0, result.stderr
        peaks[least] = replayed_peak_bytes(trace), info(trace)["recorded"]
    (blind, _), (seeing, recorded) = peaks["0"], peaks["65536"]
    host, whole = recorded["rss_anon_peak_bytes"], recorded["vm_hwm_bytes"]
    mib = [round(peak / 2**20, 1) for peak in (host, whole, blind, seeing)]
    print("{}: host {} (all its RSS {}), without {}, with {} MiB".format(name, *mib))
    assert host - 0.15 * host - (6 << 20) < seeing < whole
    assert blind < 0.7 * seeing


# Two rounds of blocks in the same place: the first is completely written, the second not at all.
RECYCLE = """
enum { BLOCKS = 20, BYTES = 64000 };
int main(void) {
  void *volatile blocks[BLOCKS];
  for (int round = 0; round < 2; round++) {
    for (int block = 0; block < BLOCKS; block++) {
      blocks[block] = malloc(BYTES);
      if (round == 0)
        memset(blocks[block], 1, BYTES);
    }
    for (int block = BLOCKS; block-- > 0;)
      free(blocks[block]);
  }
  return 0;
}
"""


@pytest.mark.parametrize("own", [False, True])
def test_memory_that_an_earlier_object_touched_counts_unless_each_has_its_own(tmp_path: Path, own: bool) -> None:
    """Two blocks fit into the initial heap (132 KiB), and never become mappings."""
    program = compile_c(tmp_path / "recycle", RECYCLE, "-O1")
    trace = tmp_path / "a.tape"
    options = ("--own-mappings",) if own else ()
    # Without trimming: otherwise the heap's end would be returned to the kernel between the rounds.
    record(trace, program, options=options, env={"MALLOC_TRIM_THRESHOLD_": "1000000000"})
    dumped = succeed(CONVERT, "dump", trace).stdout
    touched = [int(count) for count in re.findall(r" free\(.* touched=(\d+)", dumped)]
    assert touched == [16] * 20 + [0 if own else 16] * 18 + [16] * 2
