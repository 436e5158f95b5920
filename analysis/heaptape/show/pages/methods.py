# SPDX-License-Identifier: MIT
"""How the figures of a report were measured: recordings, machine, settings, noise, allocators.

All facts are from the results; facts that they lack are left out, not guessed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heaptape.results import disturbance
from heaptape.results.comparing.summary import engine_cost, spread_of_cycles
from heaptape.results.doubts import doubts
from heaptape.results.schema import Results, number

MIB = 1 << 20
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


def methods(files: Sequence[Results]) -> list[Facts]:
    """All known facts, by subject; subjects without facts are left out."""
    subjects: dict[str, Callable[[Results], Rows]] = {
        "The recordings": recording,
        "Settings": settings,
        "Machine": machine,
        "Noise and errors": noise_and_errors,
        "What the recordings lack, and what was repaired": losses,
    }
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
    workload = file.workload
    rows = [
        ("recorded program", workload.get("program")),
        ("recorded by", workload.get("source")),
        ("its allocator", workload.get("allocator")),
        ("operations", _grouped(workload.get("ops"))),
        ("threads", _grouped(workload.get("threads"))),
        ("calls", ", ".join(f"{name} {_plain(count)}" for name, count in _items(workload.get("calls")))),
        ("ideal RSS (peak of live requested bytes)", _mib(workload.get("ideal_rss_bytes"))),
        ("ideal RSS in whole OS pages", _mib(workload.get("peak_live_os_page_bytes"))),
        ("live objects at the peak", _grouped(workload.get("peak_live_objects"))),
        ("sha256 of the workload", workload.get("sha256")),
    ]
    return _known(rows)


def settings(file: Results) -> Rows:
    """All choices: passes, order, touching, repetitions, seed, and who measured."""
    modes = {
        f"{run.get('pass', '?')}: order {run.get('order', '?')}, touch {run.get('touch', '?')}" for run in file.runs
    }
    repeats: dict[str, int] = {}
    for run in file.runs:
        per = f"{run.get('pass', '?')} {run['allocator']} {run.get('variant')}"
        repeats[per] = repeats.get(per, 0) + 1
    by_pass: dict[str, list[int]] = {}
    for per, count in repeats.items():
        by_pass.setdefault(per.split(" ")[0], []).append(count)
    counts = (
        f"{pass_} {min(seen)}" + (f" to {max(seen)}" if max(seen) != min(seen) else "")
        for pass_, seen in sorted(by_pass.items())
    )
    rows: list[tuple[str, object]] = [
        ("passes, order, what is touched", "; ".join(sorted(modes)) if file.runs else None),
        ("repetitions with figures, per allocator", ", ".join(counts)),
    ]
    rows += [
        (name.replace("_", " "), str(value) if name == "seed" else _plain(value))
        for name, value in _items(file.data.get("settings"))
    ]
    rows += [(f"heaptape, {name}", _plain(value)) for name, value in _items(file.data.get("heaptape"))]
    created, elapsed = number(file.data.get("created_unix_s")), number(file.data.get("elapsed_s"))
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
    rows: list[tuple[str, object]] = [("noise", disturbance.sentence(file.data.get("noise")))]
    spread = spread_of_cycles(file)
    if spread is not None:
        rows.append(
            ("spread of total cycles from repetition to repetition", f"{100 * spread:.1f} % (standard deviation)")
        )
    cost = engine_cost(file)
    if cost is not None:
        text = f"{cost:.1f} cycles per op, measured with the null allocator (included in the bare pass)"
        rows.append(("the engine's own cost", text))
    seen = sorted(value for run in file.runs if (value := number(run.get("counter_overhead_cycles"))) is not None)
    if seen:
        rows.append(
            ("reading the cycle counter", f"{seen[0]:.3g} to {seen[-1]:.3g} cycles, subtracted from each call's figure")
        )
    agreeing = file.data.get("agreement")
    differences = (
        [number(e.get("difference_percent")) for e in agreeing or [] if isinstance(e, dict)]
        if isinstance(agreeing, list)
        else []
    )
    gaps = [gap for gap in differences if gap is not None]
    if gaps:
        text = f"bare pass against what the time pass predicts: {min(gaps):+.1f} % to {max(gaps):+.1f} %"
        rows.append(("agreement of bare and time pass", text.replace("-", "−")))
    rows += fidelity(file)
    rows += _counted_by(file)
    return _known(rows)


def fidelity(file: Results) -> Rows:
    """The error of replaying itself, under the recording's own allocator, if the results carry one ("fidelity")."""
    found = file.data.get("fidelity")
    return [(f"error of replaying: {name.replace('_', ' ')}", _plain(value)) for name, value in _items(found)]


def losses(file: Results) -> Rows:
    """Doubts from the compiler's proof of the recording; what the source could not record; runs that failed."""
    witness = file.workload.get("witness")
    rows: list[tuple[str, object]] = []
    if isinstance(witness, dict):
        found = doubts(file.workload)
        rows.append(("lost or repaired", "; ".join(found) or "nothing: the history was proved legal as recorded"))
    lacks = file.workload.get("lacks")
    rows.append(("what the source could not record", ", ".join(map(str, lacks)) if isinstance(lacks, list) else None))
    failed = file.failures
    rows.append(("runs that failed", f"{len(failed)} of {len(file.data['runs'])}" if failed else None))
    return _known(rows)


def allocators(files: Sequence[Results]) -> list[dict[str, str]]:
    """Name, variant, version, path, sha256 and environment of every allocator, without duplicates."""
    found = []
    for file in files:
        for allocator in file.data.get("allocators") or []:
            if isinstance(allocator, dict):
                row = {key: str(allocator.get(key) or "–") for key in ("name", "variant", "version", "path", "sha256")}
                row["environment"] = " ".join(f"{k}={v}" for k, v in _items(allocator.get("environment"))) or "–"
                found.append(row)
    return [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in found)]


def _counted_by(file: Results) -> list[tuple[str, object]]:
    """How instructions and misses were counted, or why they are missing."""
    missing = sorted({str(run["counters_missing_because"]) for run in file.runs if run.get("counters_missing_because")})
    there = sorted({name for run in file.runs for name, _ in _items(run.get("counters")) if name != "task_clock_ns"})
    parts = [f"{', '.join(there)}: by the processor, in the bare pass"] if there else []
    parts += [f"{'others' if there else 'none by the processor'}: {reason}" for reason in missing]
    if any(run.get("pass") == "instructions" for run in file.runs):
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


def _grouped(value: object) -> str | None:
    return f"{value:,.0f}" if number(value) is not None else None


def _mib(value: object) -> str | None:
    found = number(value)
    return f"{found / MIB:,.1f} MiB" if found is not None else None
