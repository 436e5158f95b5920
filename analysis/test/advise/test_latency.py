# SPDX-License-Identifier: MIT
"""Latencies that loads print: each form has the figures that it names, in ms, and other output has none."""

import pytest
from heaptape.advise.latency import in_words, printed_ms
from hypothesis import given
from hypothesis import strategies as st

WRK = """
    Latency     2.42ms    3.56ms  33.53ms   85.05%
    Req/Sec     5.67k     1.54k    8.55k    70.00%
  Latency Distribution
     50%  167.00us
     99%   14.28ms
  99.90%    1.50s
  5812 requests in 1.03s, 50.22MB read
"""
AB = """
Percentage of the requests served within a certain time (ms)
  50%      1
  99%     18
 100%     21 (longest request)
"""
REDIS = """
====== SET ======
100.000% <= 1.303 milliseconds (cumulative count 2000)
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.320     0.120     0.287     0.567     1.183     1.295
====== GET ======
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.300     0.120     0.311     0.500     1.000     1.295
"""
MEMTIER = """
ALL STATS
============================================================
Type    Ops/sec   Hits/sec   Misses/sec  Avg. Latency   p50 Latency   p99 Latency   p99.9 Latency    KB/sec
------------------------------------------------------------
Sets    9090.91    ---    ---    0.50000    0.40000    1.10000    2.00000    700.26
Totals   100000.00    0.00   90909.09    0.51234    0.39900    1.20700    2.51100    4242.15
"""


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (WRK, {"p50": 0.167, "p99": 14.28, "p99.9": 1500.0}),
        (AB, {"p50": 1.0, "p99": 18.0}),
        (REDIS, {"mean": 0.32, "p50": 0.311, "p95": 0.567, "p99": 1.183}),
        ("SET: rps=0.0\rSET: 21978.02 requests per second, p50=0.327 msec\n", {"p50": 0.327}),
        (MEMTIER, {"mean": 0.51234, "p50": 0.399, "p99": 1.207, "p99.9": 2.511}),
        ("latency average = 3.065 ms\nlatency stddev = 1.1 ms\n", {"mean": 3.065}),
        ("  Average Latency (s):  0.008290 (min 0.000026, max 0.028338)\n", {"mean": 8.29}),
        ("memory 50%  12ms\n  99%  7\n", {}),
    ],
    ids=["wrk", "ab", "redis-benchmark", "redis-benchmark -q", "memtier", "pgbench", "dnsperf", "other"],
)
def test_what_a_load_prints_is_read(text, ms):
    assert printed_ms(text) == pytest.approx(ms)
    assert list(printed_ms(text)) == list(ms)


@given(st.text())
def test_any_other_output_is_no_error(text):
    assert printed_ms(text) == {}


def test_medians_are_said_with_the_spread_of_their_runs():
    before = [{"p50": value, "p99": 9.0, "p99.9": 20.0} for value in (1.0, 2.0, 7.0)]
    said = "Latency of the load, ms: p50 2 (1-7) to 1.5, p99 9 (9-9) to 8."
    assert in_words(before, [{"p50": 1.5, "p99": 8.0}]) == said
    assert in_words(before, []) == in_words([], before) == in_words([{}], [{}]) == ""
