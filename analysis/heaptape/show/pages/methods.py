# SPDX-License-Identifier: MIT
"""How the figures of a report were measured: recordings, machine, settings, noise, allocators.

All facts are from the results; facts that they lack are left out, not guessed.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heaptape.common.phrases import calls_of, size
from heaptape.results import disturbance
from heaptape.results.comparing.summary import engine_cost, spread_of_cycles
from heaptape.results.disturbance import doubts
from heaptape.results.schema import Results, number
from heaptape.results.structs import Workload

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Facts:
    """Facts about several workloads side by side. A row has a name and one value for all, or one per workload."""

    title: str
    workloads: list[str]
    rows: list[tuple[str, list[str]]]

    @property
    def differs(self) -> bool:
        """Is there a row with a value for each workload?"""
        return any(len(values) > 1 for _, values in self.rows)


def of_recordings(files: Sequence[Results]) -> list[Facts]:
    """All known facts on the recordings, by subject; subjects without facts are left out."""
    return _facts(files, {"Recording": recording, "What it lacks, and what was repaired": losses})


def methods(files: Sequence[Results]) -> list[Facts]:
    """The same on the measurement."""
    return _facts(files, {"Settings": settings, "Machine": machine, "Noise and errors": noise_and_errors})


def _facts(files: Sequence[Results], subjects: dict[str, Callable[[Results], Rows]]) -> list[Facts]:
    found = [side_by_side(title, files, rows_of) for title, rows_of in subjects.items()]
    return [facts for facts in found if facts.rows]


def side_by_side(title: str, files: Sequence[Results], rows_of: Callable[[Results], Rows]) -> Facts:
    """The rows of all files, merged by name; a value that all files share appears once."""
    rows_of_files = [dict(rows_of(file)) for file in files]
    names = list(dict.fromkeys(name for rows in rows_of_files for name in rows))
    merged = []
    for name in names:
        values = [rows.get(name, "–") for rows in rows_of_files]
        merged.append((name, values[:1] if len(set(values)) == 1 else values))
    return Facts(title, [file.name for file in files], merged)


def recording(file: Results) -> Rows:
    """The workload: what was recorded, and how large it is."""
    workload = file.parsed.workload or Workload()
    rows = [
        ("recorded program", workload.program),
        ("recorded by", workload.source),
        ("its allocator", " ".join(filter(None, (workload.linked or workload.allocator, workload.allocator_version)))),
        ("replayed", calls_of(workload.ops, workload.witness) if workload.ops else None),
        ("threads", _grouped(workload.threads)),
        ("calls", ", ".join(f"{name} {_plain(count)}" for name, count in _items(file.workload.calls))),
        ("ideal RSS (peak live)", _size(workload.ideal_rss_bytes)),
        ("ideal RSS in whole OS pages", _size(workload.peak_live_os_page_bytes)),
        ("most live objects", _grouped(workload.peak_live_objects)),
        ("sha256 of the workload", workload.sha256),
    ]
    return _known(rows)


def settings(file: Results) -> Rows:
    """All choices: passes, order, touching, repetitions, seed, and who measured."""
    modes = {f"{run.pass_ or '?'}: order {run.order or '?'}, touch {run.touch or '?'}" for run in file.measured}
    by_pass: dict[str, list[int]] = {}
    for (pass_, _), count in Counter((run.pass_ or "?", run.label) for run in file.measured).items():
        by_pass.setdefault(pass_, []).append(count)
    counts = (
        f"{pass_} {min(seen)}" + (f" to {max(seen)}" if max(seen) != min(seen) else "")
        for pass_, seen in sorted(by_pass.items())
    )
    rows: list[tuple[str, object]] = [
        ("passes, order, what is touched", "; ".join(sorted(modes)) or None),
        ("repetitions with figures, per allocator", ", ".join(counts)),
    ]
    rows += [
        (name.replace("_", " "), str(value) if name == "seed" else _plain(value))
        for name, value in _items(file.parsed.settings)
    ]
    rows += [(f"heaptape, {name}", _plain(value)) for name, value in _items(file.data.get("heaptape"))]
    created, elapsed = file.parsed.created_unix_s, file.parsed.elapsed_s
    if created is not None and 0 <= created < 1 << 34:
        rows.append(("measured", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(created))))
    if elapsed is not None:
        rows.append(("duration of all replays", f"{elapsed:,.1f} s"))
    return _known(rows)


def machine(file: Results) -> Rows:
    """Processor, kernel, C library, from the results."""
    names = {"cycles_hz": "cycle counter, Hz", "os_page_bytes": "OS page, bytes", "memory_bytes": "memory, bytes"}
    rows = [
        (names.get(name, name.replace("_", " ")), _plain(value)) for name, value in _items(file.data.get("machine"))
    ]
    return _known(rows)


def noise_and_errors(file: Results) -> Rows:
    """Facts on the accuracy of figures: noise, the engine's own cost, agreement of two ways of measuring, and the error
    of replaying, where it was measured.
    """
    rows: list[tuple[str, object]] = [("noise", disturbance.sentence(file.parsed.noise))]
    spread = spread_of_cycles(file)
    if spread is not None:
        rows.append(
            ("spread of total cycles from repetition to repetition", f"{100 * spread:.1f} % (standard deviation)")
        )
    cost = engine_cost(file)
    if cost is not None:
        text = f"{cost:.1f} cycles per op, measured with the null allocator (included in the bare pass)"
        rows.append(("the engine's own cost", text))
    seen = sorted(run.counter_overhead_cycles for run in file.measured if run.counter_overhead_cycles is not None)
    if seen:
        rows.append(
            ("reading the cycle counter", f"{seen[0]:.3g} to {seen[-1]:.3g} cycles, subtracted from each call's figure")
        )
    differences = [number(one.get("difference_percent")) for one in file.parsed.agreement or []]
    gaps = [gap for gap in differences if gap is not None]
    if gaps:
        text = f"bare pass against what the time pass predicts: {min(gaps):+.1f} % to {max(gaps):+.1f} %"
        rows.append(("agreement of bare and time pass", text.replace("-", "−")))
    rows += _counted_by(file)
    return _known(rows)


def losses(file: Results) -> Rows:
    """Doubts from the compiler's proof of the recording; what the source could not record; runs that failed."""
    workload = file.parsed.workload or Workload()
    rows: list[tuple[str, object]] = []
    if workload.witness is not None:
        found = doubts(file.workload.witness)
        rows.append(("lost or repaired", "; ".join(found) or "nothing: the history was proved legal as recorded"))
    rows.append(("what the source could not record", ", ".join(workload.lacks or []) or None))
    failed = file.failures
    rows.append(("runs that failed", f"{len(failed)} of {len(file.parsed.runs)}" if failed else None))
    return _known(rows)


def allocators(files: Sequence[Results]) -> list[dict[str, str]]:
    """Name, variant, version, path, sha256 and environment of every allocator, without duplicates."""
    found = []
    for file in files:
        for one in file.parsed.allocators or []:
            row = {key: getattr(one, key) or "–" for key in ("name", "variant", "version", "path", "sha256")}
            row["environment"] = " ".join(f"{k}={v}" for k, v in (one.environment or {}).items()) or "–"
            found.append(row)
    return [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in found)]


def _counted_by(file: Results) -> list[tuple[str, object]]:
    """How instructions and misses were counted, or why they are missing."""
    missing = sorted({run.counters_missing_because for run in file.measured if run.counters_missing_because})
    there = sorted({name for run in file.measured for name in run.counters or () if name != "task_clock_ns"})
    parts = [f"{', '.join(there)}: by the processor, in the bare pass"] if there else []
    parts += [f"{'others' if there else 'none by the processor'}: {reason}" for reason in missing]
    if any(run.pass_ == "instructions" for run in file.measured):
        parts.append("instructions per call: by heaptape's Valgrind tool")
    elif missing and "instructions" not in there:
        parts.append("--passes instructions counts them under Valgrind; it was not run")
    return [("instructions and misses", "; ".join(parts))] if parts else []


def _known(rows: Sequence[tuple[str, object]]) -> Rows:
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _items(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known"}[value]
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def _grouped(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _size(value: int | None) -> str | None:
    return None if value is None else size(value)
