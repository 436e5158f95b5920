# SPDX-License-Identifier: MIT
"""`python -m tests.bench.time.bounds`: what bounds the error of the model of time, for pairs that live runs decided.

From the committed raw results, in steps, each of which changes one thing: live runs drawn again from the same rounds,
as a perfect prediction would find them; the prediction that was made before the live runs, with the machine's caches;
today's model on the same counts; the counts of the replay with the simulator's sizes of caches; the counts of the live
program under the simulation in their place; and all costs at the place in their ranges that fits best, one for all
programs or one for each. The last two use the pairs that they are judged on: they are bounds, not predictions. Then,
for the programs of which cachegrind counted them, the effect of mispredicted branches and instruction misses, which
the model does not have.
"""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
from heaptape.results.comparing.sequential import DIFFERENT, decision
from heaptape.results.model.counts import Counts, of_misses
from heaptape.results.model.penalties import SIMULATED_CACHES, Penalties, penalties
from heaptape.results.model.time_model import changes
from heaptape.results.structs import Misses, Run

from tests.bench.fidelity import live_rounds, timed, timed_certificate
from tests.bench.fidelity.certificate import BASELINE
from tests.bench.fidelity.raw import read_results
from tests.support import REPOSITORY

DRAWS = 1000
MISPREDICTED_NS = 9.6  # out/test-programs/mispredicted_branch, on the machine of the live runs
PLACES = np.linspace(0, 1, 41)  # in the ranges of all costs: 0 is all low ends, 1/2 the middles
RAW = REPOSITORY / "docs" / "methods" / "fidelity"
BRANCHES = REPOSITORY / "docs" / "measurements" / "data" / "time_branches_xeon.csv"


@dataclass(frozen=True)
class Side:
    """One allocator, the baseline or another: its counts in each layout (a replay has one)."""

    replayed: Counts
    live: Sequence[Counts]


def by_app(folder: Path) -> dict[str, dict]:
    """The raw results of a folder. Raises HeaptapeError at a file that is not one."""
    return {one["app"]["name"]: one for one in read_results(sorted(folder.glob("*.json.zst")))}


def sides(costs: dict, counted: dict) -> dict[str, Side]:
    """The sides of one app, by allocator, for those that ran in both ways. `costs`: measured by heaptape-machine."""
    known = penalties(costs)
    replayed = {
        run["allocator"]: _counts(run["misses"], run["allocator"], known)
        for run in counted["replays"]
        if "misses" in run
    }
    live: dict[str, list[Counts]] = {}
    for run in sorted(counted["live"], key=lambda run: run["padding_bytes"]):
        counts = _counts(as_of_pass(run["counts"]), run["allocator"], known)
        live.setdefault(run["allocator"], []).append(counts)
    return {label: Side(replayed[label], live[label]) for label in replayed if label in live}


def _counts(misses: Mapping, allocator: str, known: Penalties) -> Counts:
    return of_misses(msgspec.convert(misses, Misses), Run(allocator), known)


def as_of_pass(counts: Mapping) -> dict:
    """Counts of a live program under the simulation, with the keys of the pass misses."""
    return dict(counts) | {f"{part}_instructions": counts[part]["instructions"] for part in ("program", "allocator")}


def at(base: Counts, other: Counts, place: float) -> float:
    """The change in percent with all costs at that place in their ranges."""
    before, after = ({term.name: term for term in one.terms} for one in (base, other))
    both = [before[name] for name in before if name in after]
    price = np.array([term.penalty.low * (term.penalty.high / term.penalty.low) ** place for term in both])
    counts = np.array([term.count for term in both])
    return float(100 * (np.array([after[term.name].count for term in both]) @ price / (counts @ price) - 1))


def of_live_counts(base: Side, other: Side) -> dict:
    """percent, low, high: the median over layouts, and their common interval; at: the median at each of PLACES."""
    row = changes(base.live, other.live)[0]
    each = [changes([one], [two])[0]["percent"] for one, two in zip(base.live, other.live)]
    places = [[at(one, two, place) for place in PLACES] for one, two in zip(base.live, other.live)]
    return {"percent": float(np.median(each)), "low": row["low"], "high": row["high"], "at": np.median(places, axis=0)}


def steps(times: Mapping[str, dict], counts: Mapping[str, dict]) -> pd.DataFrame:
    """One row per pair that live runs found different, and whose app was counted: app, allocator, live, live_low,
    live_high, predicted, now, replayed, counted, counted_low, counted_high, one_place, own_place (changes in percent).
    """
    found = timed_certificate.pairs(list(times.values()))
    now = {name: timed.predict(data, data["penalties"])["predicted"] for name, data in times.items()}
    rows = []
    for row in found[found["verdict"] == DIFFERENT].to_dict("records"):
        name, label = row["app"], row["allocator"]
        there = sides(times[name]["penalties"], counts[name]) if name in counts else {}
        if label not in there or BASELINE not in there:
            continue
        base, other = there[BASELINE], there[label]
        of_live = of_live_counts(base, other)
        kept = {key: row[key] for key in ("app", "allocator", "live", "live_low", "live_high")}
        kept |= {"predicted": row["percent"], "now": now[name][label]["percent"]}
        kept |= {"replayed": changes([base.replayed], [other.replayed])[0]["percent"]}
        kept |= {"counted": of_live["percent"], "counted_low": of_live["low"], "counted_high": of_live["high"]}
        rows.append(kept | {"at": of_live["at"]})
    return with_places(pd.DataFrame(rows))


def with_places(table: pd.DataFrame) -> pd.DataFrame:
    """Adds one_place and own_place, the live counts with all costs at the place that is best for all pairs, and for
    each app's, and removes `at`.
    """
    return table.assign(
        one_place=at_best(table), own_place=pd.concat([at_best(part) for _, part in table.groupby("app")])
    ).drop(columns="at")


def at_best(table: pd.DataFrame) -> pd.Series:
    """The changes at the place with the least error of size, by the mean of the logarithms: few pairs are far off."""
    changes_at = np.stack(table["at"].to_list())
    live = table["live"].to_numpy()[:, None]
    best = int(np.log(np.abs(changes_at - live) / np.abs(live) + 0.1).mean(axis=0).argmin())
    return pd.Series(changes_at[:, best], index=table.index)


def with_branches(times: Mapping[str, dict], table: pd.DataFrame, branches: pd.DataFrame) -> pd.DataFrame:
    """The rows whose branches were counted, with `branched`: `counted` plus the branches, and `fetched`: that plus the
    instruction misses. An instruction miss costs as much as a first-level load that is waited for.
    """
    found = table.merge(branches.rename(columns={"program": "app"}), on=["app", "allocator"])
    of_app = {name: penalties(times[name]["penalties"]) for name in found["app"].unique()}
    miss_ns = found["app"].map({name: first_miss_ns(known) for name, known in of_app.items()})
    live_ns = found["app"].map({name: live_baseline_ns(times[name]) for name in of_app})
    branched = found["counted"] + 100 * found["mispredicted"] * MISPREDICTED_NS / live_ns
    return found.assign(branched=branched, fetched=branched + 100 * found["instruction_misses"] * miss_ns / live_ns)


def first_miss_ns(known: Penalties) -> float:
    """Time of a load that misses the first level, and for which the following instructions wait."""
    first, second = SIMULATED_CACHES[0].capacity, SIMULATED_CACHES[2].capacity
    return known.cache_miss(first, second).high


def live_baseline_ns(data: dict) -> float:
    return float(np.median([one["cpu_ns"][BASELINE] for one in data["live"]]))


def drawn_again(times: Mapping[str, dict], table: pd.DataFrame, draws: int) -> tuple[float, float, float]:
    """A perfect prediction, judged by live runs drawn again from the same rounds: signs right of all pairs, error of
    size in percent, the median and the 90th percentile; means over that many draws.
    """
    random = np.random.default_rng(1)
    found = []
    for row in table.to_dict("records"):
        logs = logs_of(times[row["app"]], row["allocator"])
        again = random.choice(logs, (draws, len(logs)))
        found.append([decision(one).percent for one in again])
    lived = np.array(found)
    truth = table["live"].to_numpy()[:, None]
    off = 100 * np.abs(truth - lived) / np.abs(lived)
    right = float((truth * lived > 0).sum(axis=0).mean())
    return right, float(np.median(off, axis=0).mean()), float(np.quantile(off, 0.9, axis=0).mean())


def logs_of(data: dict, label: str) -> np.ndarray:
    """The logarithms of the ratios within the rounds that the pair was decided on."""
    rounds = [one["cpu_ns"] for one in data["live"] if label in one["cpu_ns"]]
    used = rounds[: live_rounds.found(data)[label].rounds]
    return np.array([math.log(one[label] / one[BASELINE]) for one in used])


STEPS = {
    "predicted": "as predicted before, with the machine's sizes of caches",
    "now": "the same counts, by the model as it is now",
    "replayed": "counts of the replay, with the simulator's sizes",
    "counted": "counts of the live program in their place",
    "one_place": "and all costs at one place in their ranges, the best for these pairs",
    "own_place": "and at one for each program",
}


def summary(times: Mapping[str, dict], table: pd.DataFrame, branched: pd.DataFrame) -> Iterator[str]:
    yield "| | pairs | sign right | size off: median | 90th percentile |"
    yield "|---|---:|---:|---:|---:|"
    right, median, ninth = drawn_again(times, table, DRAWS)
    drawn = f"{len(table)} | {right:.1f} | {median:.0f} % | {ninth:.0f} %"
    yield f"| a perfect prediction, live runs drawn again | {drawn} |"
    yield from (judged(table, step, text) for step, text in STEPS.items())
    if len(branched):
        programs = ", ".join(branched["app"].unique())
        yield judged(branched, "counted", f"counts of the live program, of {programs}")
        yield judged(branched, "branched", "and their mispredicted branches")
        yield judged(branched, "fetched", "and their instruction misses")


def judged(table: pd.DataFrame, step: str, text: str) -> str:
    off = 100 * (table[step] / table["live"] - 1).abs()
    right = (table[step] * table["live"] > 0).sum()
    return f"| {text} | {len(table)} | {right} | {off.median():.0f} % | {off.quantile(0.9):.0f} % |"


def by_pair(table: pd.DataFrame, branched: pd.DataFrame) -> Iterator[str]:
    """Lines of Markdown; bold: the live change is outside of the interval of the live counts."""
    added = branched.set_index(["app", "allocator"])["branched"].to_dict() if len(branched) else {}
    yield "| program | allocator | live | predicted | now | replayed | counted | at its place | with branches |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in table.itertuples():
        live = f"{row.live:+.1f} ({row.live_low:+.1f} to {row.live_high:+.1f})"
        cells = [live if row.counted_low <= row.live <= row.counted_high else f"**{live}**"]
        values = (row.predicted, row.now, row.replayed, row.counted, row.own_place)
        cells += [f"{value:+.1f}" for value in (*values, added.get((row.app, row.allocator), math.nan))]
        yield f"| {row.app} | {row.allocator} | {' | '.join(cells).replace('+nan', '–').replace('nan', '–')} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time.bounds", description=__doc__)
    parser.add_argument("--timed", type=Path, default=RAW / "timed", help="raw results with live runs in turns")
    parser.add_argument("--counted", type=Path, default=RAW / "counted", help="raw results of live simulations")
    parser.add_argument("--branches", type=Path, default=BRANCHES, help="the output of branches.py")
    arguments = parser.parse_args()
    times, counts = by_app(arguments.timed), by_app(arguments.counted)
    table = steps(times, counts)
    if table.empty:
        parser.error("no pair that live runs decided was counted, too")
    branched = with_branches(times, table, pd.read_csv(arguments.branches))
    print("\n".join([*summary(times, table, branched), "", *by_pair(table, branched)]))


if __name__ == "__main__":
    main()
