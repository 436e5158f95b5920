# SPDX-License-Identifier: MIT
"""Results written by hand in a test: a value for each allocator and repetition."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from heaptape.common.checked import checked
from heaptape.results.memory_map import MemoryMap, decode
from heaptape.results.schema import Results
from heaptape.results.structs import Run


def runs_of(pass_: str, key: str, table: Mapping[str, Iterable]) -> list[dict]:
    """A run for each value. `table`: allocator -> its values, one for each repetition."""
    return [
        {"allocator": allocator, "variant": "default", "pass": pass_, "repeat": repeat, key: value}
        for allocator, values in table.items()
        for repeat, value in enumerate(values)
    ]


def typed(run: dict) -> Run:
    """The run as results have it once they are read. Raises HeaptapeError if a key has not its type."""
    return checked("r.json", {"allocator": "x"} | run, Run)


def map_of(table: object) -> MemoryMap:
    """A run's "memory_map", decoded."""
    found = typed({"memory_map": table}).memory_map
    assert found is not None
    return decode(found, "x")


def file_of(runs: Iterable[dict], name: str = "w", **workload: Any) -> Results:  # noqa: ANN401
    """The runs as a results file. `workload`: further keys of the workload."""
    data = {"schema": 1, "workload": {"name": name, **workload}, "runs": list(runs)}
    return Results(
        f"{name}.json", json.loads(json.dumps(data, default=lambda value: value.item()))
    )  # without the types of NumPy


def cycles_and_rss(
    cycles: Mapping[str, Iterable] | None = None, rss: Mapping[str, Iterable] | None = None, name: str = "w"
) -> Results:
    """The total cycles and the peak RSS of each allocator's repetitions."""
    time, memory = runs_of("time", "cycles_total", cycles or {}), runs_of("memory", "rss_anon_peak_bytes", rss or {})
    return file_of(time + memory, name)


def series(values: Sequence[float], first: int = 0) -> pd.Series:
    """The values of one metric as in heaptape.results: by number of the file and of the repetition."""
    return pd.Series(values, index=[f"0:{first + i}" for i in range(len(values))], dtype=float)
