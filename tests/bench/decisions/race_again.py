# SPDX-License-Identifier: MIT
"""What a race picks, and what that costs, on rounds that were measured: a table for docs/measurements/advice.md.

    python -m tests.bench.decisions.race_again [--times 1000]

For each program of docs/measurements/data/race_rounds.csv races are run again, each with rounds drawn from those of the
program, with as many runs as the race of that day had; the candidates are those that the counts of that day
(race_predicted.csv) do not leave behind. Regret: CPU time of the pick over that of the best, in points of today's, by
the means of all its rounds. Reads no clock.
"""

import argparse
import csv
import math
import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heaptape.advise.confirm import Raced
from heaptape.decide.cpu import ESTIMATED, Cpu
from heaptape.decide.verdict import CPU, Candidate, CountsOf, Judge, decide, racers
from heaptape.results.comparing import race

from tests.bench.harness import heading, row
from tests.support import REPOSITORY

TODAY = "today"
DATA = REPOSITORY / "docs/measurements/data"
FLAT = Cpu(ESTIMATED, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class Measured:
    """A program's rounds, label -> CPU time in seconds; its predictions; how many runs its race had."""

    rounds: list[dict[str, float]] = field(default_factory=list)
    predicted: dict[str, Cpu] = field(default_factory=dict)
    raced: list[str] = field(default_factory=list)
    runs: int = 0

    @property
    def truth(self) -> dict[str, float]:
        """label -> change in percent."""
        logs = {label: [math.log(one[label] / one[TODAY]) for one in self.rounds] for label in self.rounds[0]}
        return {label: 100 * math.expm1(statistics.mean(each)) for label, each in logs.items()}


def measured() -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for line in _lines("race_rounds.csv"):
        rounds = found.setdefault(line["program"], Measured()).rounds
        if int(line["round"]) == len(rounds):
            rounds.append({})
        rounds[-1][line["allocator"]] = float(line["cpu_s"])
    for line in _lines("race_predicted.csv"):
        one, label = found[line["program"]], line["allocator"]
        one.runs = int(line["runs"])
        if line["percent"]:
            percent, low, high = (float(line[key]) for key in ("percent", "low", "high"))
            one.predicted[label] = Cpu(ESTIMATED, percent, low, high, percent, low, high)
        if line["raced"] == "1":
            one.raced.append(label)
    return found


def _lines(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Predicting(Judge):
    """Judges by predictions of another day in the place of counts: `changes[label]` of today's CPU time."""

    changes: Mapping[str, Cpu] = field(default_factory=dict)

    def _of_counts(self, before: CountsOf | None, after: CountsOf | None) -> Cpu | None:
        (label,) = after or [""]
        return self.changes.get(label)


def candidates(one: Measured) -> tuple[Predicting, list[Candidate]]:
    of: dict[str, CountsOf] = {label: {label: []} for label in one.predicted}
    rows = [Candidate(label, 1.0, 1.0, of.get(label)) for label in one.rounds[0]]
    return Predicting(lambda *_: 0.0, changes={TODAY: FLAT, **one.predicted}), rows


def pick(one: Measured, rng: random.Random) -> str:
    """The label that a race with rounds drawn from those of the program picks."""
    judge, rows = candidates(one)
    able = racers(rows, rows[0], [row.label for row in rows], judge)
    able = list(dict.fromkeys([*one.raced, *able])) if one.predicted else [row.label for row in rows[1:]]
    running = able
    made, spent = Raced(TODAY, racers=tuple(able)), 1  # one run shows how long they take
    while running and (spent + 1 + len(running) <= one.runs or not made.rounds):
        drawn = rng.choice(one.rounds)
        made.rounds.append({label: drawn[label] for label in (TODAY, *running)})
        spent += 1 + len(running)
        running = race.goes_on(made.rounds, able, TODAY)
    live = made.live
    rows = [Candidate(row.label, 1.0, 1.0, row.counts, live=live.get(row.label)) for row in rows]
    kept = [row.label for row in rows]
    (found,) = decide(rows, TODAY, CPU, judge, kept)
    return found.label


def regrets(one: Measured, picks: Sequence[str]) -> list[float]:
    truth = one.truth
    best = min(truth.values())
    return [truth[label] - best for label in picks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1000)
    times = parser.parse_args().times
    heading("program", "picks", "regret, mean", "median", "worse than today's by 2 points, %")
    means, medians = [], []
    for name, one in measured().items():
        rng = random.Random(name)
        picks = [pick(one, rng) for _ in range(times)]
        found, truth = regrets(one, picks), one.truth
        worse = 100 * sum(truth[label] > 2 for label in picks) / times
        means.append(statistics.mean(found))
        medians.append(statistics.median(found))
        said = ", ".join(f"{label} {100 * count / times:.0f} %" for label, count in Counter(picks).most_common(3))
        row(name, said, f"{means[-1]:.1f}", f"{medians[-1]:.1f}", f"{worse:.1f}")
    print(f"median of the medians {statistics.median(medians):.1f}, of the means {statistics.median(means):.1f}")


if __name__ == "__main__":
    main()
