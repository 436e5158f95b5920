# SPDX-License-Identifier: MIT
"""The atlas: what each allocator costs on each program, as one small file that can be committed (docs/use/FLEET.md).

`of_store` makes it from a store's exact cells; `changes` compares two of them; `picks` says how well the nearest other
programs choose an allocator for a program.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from heaptape.allocators import installed
from heaptape.allocators.registry import Choice, sha256_of
from heaptape.common.errors import HeaptapeError
from heaptape.common.output import write_text
from heaptape.common.phrases import MEAN_OF_ANY
from heaptape.common.version import __version__
from heaptape.features.fleet.features import FEATURES, standardised
from heaptape.features.fleet.store import Store, Workload, is_exact
from heaptape.results.model.time_model import ALL, prediction
from heaptape.results.schema import Results, figures
from heaptape.results.structs import SIMULATED_OF_ALL, label

BASELINE = "glibc"
SHORT_SHA = 16
CPU, SYSTEM_CALLS = "cpu", "syscalls"
# The figures to compare by; less is better for each. CPU: percent of the program's CPU time on BASELINE.
FIGURES = {
    "peak_rss": "peak memory",
    "mean_rss": MEAN_OF_ANY,
    "held_rss": "memory after all is freed",
    "total_instructions": "instructions in malloc and free",
    SYSTEM_CALLS: "memory system calls",
    "page_faults": "page faults",
    "misses": "misses of the last-level cache, the program's included",
    CPU: "predicted CPU time",
}
# Kept beside them, to show what a cell consists of: metrics of results, and those with these beginnings.
KEPT = ("ideal_rss", "purged_rss", "vm_size", "startup_instructions", "string_bytes")
KEPT_GROUPS = ("syscalls/", "instructions/", SIMULATED_OF_ALL)
# Facts on the machine that are kept.
OF_MACHINE = ("cpu", "cores", "os", "kernel", "libc", "transparent_huge_pages")
NEIGHBOURS = 3
NEAR_BEST = 1.02
DIGITS = 6

Run = dict[str, Any]


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An allocator with its settings. `name`: as it was asked for (mimalloc@3), so that a newer version has the same;
    `version`, `source`: which one it was; `library`: first digits of its sha256; `study`: not for use by programs.
    """

    name: str
    version: str
    source: str
    library: str
    settings: dict[str, str] = {}
    study: bool = False


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recording. `name`: its file's, without the ending; recordings whose names agree up to the first '.' are of one
    program. `workload`: first digits of its sha256. `profile`: FEATURES; empty if it was a workload already.
    """

    name: str
    workload: str
    calls: int
    threads: int
    peak_live_bytes: int
    profile: dict[str, int | float] = {}

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"pass_": "pass"}):
    """Why cells of a pass are missing. `program`: empty for all of them."""

    column: str
    program: str
    pass_: str
    reason: str


class Atlas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`cells`: program -> figure -> a value for each column; None: not known. `absent`: allocators that can't be had
    here, with the reason. `engines`: first digits of the hashes of the programs that replayed.
    """

    schema: Literal[1]
    day: str
    heaptape: str
    engines: list[str]
    machine: dict[str, str]
    columns: list[Column]
    absent: dict[str, str]
    programs: list[Program]
    failures: list[Failure]
    cells: dict[str, dict[str, list[int | float | None]]]

    def table(self) -> pd.DataFrame:
        """Columns program, column, figure, value: what is known, of FIGURES."""
        names = [column.name for column in self.columns]
        rows = [
            (program, name, figure, value)
            for program, found in self.cells.items()
            for figure in FIGURES
            for name, value in zip(names, found.get(figure, []))
            if value is not None
        ]
        return pd.DataFrame(rows, columns=["program", "column", "figure", "value"])


def read(path: str) -> Atlas:
    """Raises HeaptapeError that names the file."""
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=Atlas)
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise HeaptapeError(f"{path}: {error}") from None
    for program, of_program in found.cells.items():
        for figure, values in of_program.items():
            if len(values) != len(found.columns):
                raise HeaptapeError(f"{path}: {program}, {figure}: {len(values)} of {len(found.columns)} values")
    return found


def write(atlas: Atlas, path: str) -> None:
    """One line for each program's figure, so that version control shows what changed."""
    data = msgspec.to_builtins(atlas)
    lines = [f'"{key}":{_line(value)}' for key, value in data.items() if not isinstance(value, list) and key != "cells"]
    for key in ("engines", "columns", "programs", "failures"):
        lines.append(f'"{key}":[\n' + ",\n".join(map(_line, data[key])) + "]")
    rows = [
        f"{json.dumps(program)}:{{\n" + ",\n".join(f"{json.dumps(one)}:{_line(values)}" for one, values in of.items())
        for program, of in data["cells"].items()
    ]
    lines.append('"cells":{\n' + "},\n".join(rows) + ("}" if rows else "") + "}")
    write_text(path, "{" + ",\n".join(lines) + "}\n")


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def of_store(store: Store, choices: Mapping[str, Choice], study: Sequence[str], absent: Mapping[str, str]) -> Atlas:
    """The atlas of a store's exact cells. `choices`: the columns, name -> what it stands for here; cells of other
    libraries are left out, and of several engines' the newest counts. `study`: allocators that are not for use. Raises
    HeaptapeError where there are no cells.
    """
    libraries = {name: sha256_of(choice.path) for name, choice in choices.items()}
    names = {(choice.label, libraries[name]): name for name, choice in choices.items()}
    runs: dict[str, dict[tuple[str, str], Run]] = defaultdict(dict)
    engines, machines_used, failed = set(), set(), []
    workloads = store.workloads()
    by_label = {choice.label: name for name, choice in choices.items()}
    for record in sorted(store.records(), key=lambda one: one.unix_s):
        for cell, run in record.runs:
            name = names.get((label(cell.allocator, run.get("variant")), cell.library))
            about = workloads.get(cell.workload)
            if name and about and is_exact(cell.pass_) and "error" in run:
                failed.append(Failure(name, about.name, cell.pass_, run["error"]))
            elif name and about and is_exact(cell.pass_):
                runs[cell.workload][name, cell.pass_] = run | {"allocator": cell.allocator}
                engines.add(cell.engine[:SHORT_SHA])
                machines_used.add(record.machine)
    if not runs:
        raise HeaptapeError(f"{store.url}: no exact cell of {', '.join(choices)}")
    found = sorted((workloads[sha].name, sha) for sha in runs)
    passed = {(name, *key) for name, sha in found for key in runs[sha]}
    machines, candidates = store.machines(), {one.path: one.record for one in installed.find_all(installed.root())}
    used = [machines.get(one, {}) for one in sorted(machines_used)]
    return Atlas(
        schema=1,
        day=f"{datetime.now(timezone.utc):%Y-%m-%d}",
        heaptape=__version__,
        engines=sorted(engines),
        machine={key: ", ".join(dict.fromkeys(str(one.get(key)) for one in used)) for key in OF_MACHINE},
        columns=[
            _column(name, choice, candidates.get(choice.path), libraries[name], choice.allocator in study)
            for name, choice in choices.items()
        ],
        absent=dict(absent),
        programs=[_program(workloads[sha]) for _, sha in found],
        failures=_failures(failed, passed),
        cells={name: _cells(workloads[sha].about, list(runs[sha].values()), by_label, used[0]) for name, sha in found},
    )


def _column(name: str, choice: Choice, record: installed.Record | None, library: str, study: bool) -> Column:
    source = f"{record.source.origin} {record.source.package}" if record else choice.version.rpartition(" ")[0]
    own = f"heaptape {__version__}" if study else ""
    version = record.version if record else (choice.version or own).rpartition(" ")[2]
    return Column(name, version, source, library[:SHORT_SHA], choice.environment, study)


def _program(one: Workload) -> Program:
    profile = {name: _short(one.profile[name]) for name in FEATURES} if one.profile else {}
    about = one.about
    return Program(one.name, one.sha256[:SHORT_SHA], about["ops"], about["threads"], about["ideal_rss_bytes"], profile)


def _failures(failed: Sequence[Failure], passed: set[tuple[str, str, str]]) -> list[Failure]:
    """Cells that failed, with the last reason, but not those that another engine `passed` (program, column, pass). An
    allocator on which a pass never did has one for all programs.
    """
    anywhere, found = {key[1:] for key in passed}, {}
    for one in failed:
        if (one.program, one.column, one.pass_) not in passed:
            program = one.program if (one.column, one.pass_) in anywhere else ""
            reason = one.reason.partition(".work: ")[2] or one.reason
            found[one.column, program, one.pass_] = Failure(one.column, program, one.pass_, reason)
    return [found[key] for key in sorted(found)]


def _cells(
    about: Mapping, runs: Sequence[Run], names: Mapping[str, str], machine: Mapping
) -> dict[str, list[float | None]]:
    """figure -> a value for each of the names."""
    file = Results("", {"schema": 1, "workload": about, "machine": machine, "runs": list(runs)})
    table = figures([file])
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for row in table.itertuples():
        if row.metric in FIGURES or row.metric in KEPT or row.metric.startswith(KEPT_GROUPS):
            values[row.metric][names[row.allocator]] = row.value
    for metric in [one for one in values if one.startswith("syscalls/")]:
        for name, value in values[metric].items():
            values[SYSTEM_CALLS][name] = values[SYSTEM_CALLS].get(name, 0) + value
    caches = [one for one in values if one.startswith(f"{SIMULATED_OF_ALL}cache_")]
    if caches:
        values["misses"] = values[max(caches, key=lambda one: int(one.rpartition("_")[2]))]
    _add_time(file, names, values)
    order = [*FIGURES, *sorted(set(values) - set(FIGURES))]
    return {one: [_rounded(values[one].get(name)) for name in names.values()] for one in order if values.get(one)}


def _add_time(file: Results, names: Mapping[str, str], values: dict[str, dict[str, float]]) -> None:
    """The predicted CPU time, its range and its parts in points, where the program's own accesses were counted."""
    if BASELINE not in names or not values.get("misses"):
        return
    for row in prediction([file], BASELINE).itertuples():
        if math.isnan(row.percent):
            continue
        if row.part == ALL:
            name, ends = names[row.allocator], {CPU: row.percent, "cpu/low": row.low, "cpu/high": row.high}
            for key, value in ends.items():
                values[key][names[BASELINE]] = 100.0
                values[key][name] = 100 + value
        else:
            values[f"cpu/{row.part}"][names[row.allocator]] = row.percent


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else _short(value)


def _short(value: float) -> float:
    """At most DIGITS digits behind the point's place, whole numbers as such: the file is small, and exact figures that
    agree stay equal.
    """
    return int(value) if float(value).is_integer() else float(f"{value:.{DIGITS}g}")


CHANGES = ["change", "program", "column", "figure", "before", "after", "percent", "version_before", "version_after"]


def changes(old: Atlas, new: Atlas, least_percent: float = 0.5) -> pd.DataFrame:
    """What differs by at least `least_percent`: rows of CHANGES, the greatest first. `change`: "better", "worse",
    "new" (a cell that the old one lacks) or "gone". `percent` is infinite where it was 0 before.
    """
    keys = ["program", "column", "figure"]
    both = old.table().merge(new.table(), on=keys, how="outer", suffixes=("_before", "_after"))
    both = both.rename(columns={"value_before": "before", "value_after": "after"})
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = 100 * (both["after"] / both["before"] - 1)
    percent = percent.where(both["after"] != both["before"], 0.0)
    kinds = [both["before"].isna(), both["after"].isna(), percent < 0]
    both["change"] = np.select(kinds, ["new", "gone", "better"], "worse")
    both["percent"] = percent
    found = both[both["percent"].isna() | (both["percent"].abs() >= least_percent)]
    for side, atlas in (("version_before", old), ("version_after", new)):
        versions = {column.name: column.version for column in atlas.columns}
        found = found.assign(**{side: found["column"].map(versions)})
    return found.sort_values("percent", key=np.abs, ascending=False, kind="stable", ignore_index=True)[CHANGES]


PICKS = ["program", "figure", "pick", "ratio", "best", "always", "always_ratio", "baseline_ratio", "nearest"]


def picks(atlas: Atlas, figure: str, neighbours: int = NEIGHBOURS) -> pd.DataFrame:
    """What would have been chosen for each program by its profile alone: rows of PICKS. `pick`: the allocator with the
    least geometric mean of the figure over the `nearest` programs of other families, each relative to its best one;
    `ratio`: its figure on this program by that of the `best`. `always`: the least mean over all other families, which
    needs no profile. Only columns for use that have the figure on every program with a profile.
    """
    programs = [one for one in atlas.programs if one.profile and figure in atlas.cells.get(one.name, {})]
    usable = [number for number, one in enumerate(atlas.columns) if not one.study]
    if len(programs) <= neighbours or not usable:
        return pd.DataFrame(columns=PICKS)
    values = np.array([[atlas.cells[one.name][figure][at] for at in usable] for one in programs], float)
    usable = [at for at, known in zip(usable, np.isfinite(values).all(axis=0)) if known]
    values = values[:, np.isfinite(values).all(axis=0)] + 1  # a count may be 0
    names = [atlas.columns[at].name for at in usable]
    if not names:
        return pd.DataFrame(columns=PICKS)
    logs = np.log(values / values.min(axis=1, keepdims=True))
    place = standardised([one.profile for one in programs])
    distances = cdist(place, place)
    rows = []
    for at, program in enumerate(programs):
        others = [other for other, one in enumerate(programs) if one.family != program.family]
        nearest = sorted(others, key=lambda other: distances[at, other])[:neighbours]
        pick, always = logs[nearest].mean(axis=0).argmin(), logs[others].mean(axis=0).argmin()
        ratios = np.exp(logs[at])
        base = ratios[names.index(BASELINE)] if BASELINE in names else math.nan
        near = ", ".join(programs[other].name for other in nearest)
        best = names[ratios.argmin()]
        row = (program.name, figure, names[pick], ratios[pick], best, names[always], ratios[always], base, near)
        rows.append(row)
    return pd.DataFrame(rows, columns=PICKS)


def summary(found: pd.DataFrame) -> dict[str, float]:
    """Of `picks`: the number of programs; the shares that are the best, and within NEAR_BEST of it, of the pick, of the
    one choice for all and of the baseline; and how far each is from the best in the geometric mean, in percent.
    """
    result: dict[str, float] = {"programs": len(found)}
    for who, column in (("pick", "ratio"), ("always", "always_ratio"), ("baseline", "baseline_ratio")):
        ratios = found[column]
        result[f"{who}_best"] = float((ratios <= 1).mean())
        result[f"{who}_near"] = float((ratios <= NEAR_BEST).mean())
        result[f"{who}_above_percent"] = 100 * (math.exp(float(np.log(ratios).mean())) - 1)
    return result
