# SPDX-License-Identifier: MIT
"""The certificate of CPU time as a section of docs/methods/FIDELITY.md."""

import time
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from heaptape.results.comparing.race import EFFECT_PERCENT, SAME

from tests.bench.fidelity import live_rounds
from tests.bench.fidelity.counted_document import failures, percent
from tests.bench.fidelity.looks import FIRST_LOOK, LEVEL_OF_ONE, LOOKS
from tests.bench.fidelity.timed_certificate import QUIET_PERCENT, disturbance, pairs, summary

TARGET = "20 different, right 90 %, size off 30 % at the median"
METHOD = f"""\
The [model of time](TIME_MODEL.md) predicts the change of CPU time from a recording on glibc with data accesses. Then
the program runs live, in rounds: glibc and each allocator that is not decided yet, in random order, with random
addresses.

- **Live**: the change against glibc in percent: the mean of the log ratios within rounds, the fifth at each end left
  out. It is tested {LOOKS} times at most, first after {FIRST_LOOK} rounds; all intervals of a pair together hold the
  truth in 95 % (one: {100 * LEVEL_OF_ONE:.4g} %).
- **Different**: the interval is narrower than the change, which is {EFFECT_PERCENT:g} % or more.
  **{SAME.capitalize()}**: the interval leaves out all such changes. Else **undecided**: no prediction is judged by it.
- **Right**: of different pairs, the predicted middle has the live sign. *Outright*: the predicted interval leaves
  out 0. *Size off*: predicted less live, in percent of the live change. *Contradicted*: {SAME} live,
  but the whole predicted interval is beyond that.
"""


def section(results: Sequence[dict]) -> list[str]:
    """Lines of Markdown, heading included; none without results."""
    if not results:
        return []
    table = pairs(results)
    return [
        "## CPU time: live pairs against counts", "", METHOD, *_head(results), *_summary_table(table),
        *_failures(results),
    ]  # fmt: skip


def short_rows(results: Sequence[dict]) -> list[dict]:
    """The rows of `summary` of all and of held-out programs in which pairs were found different."""
    found = summary(pairs(results))
    kept = found[found["group"].isin(("all", "held-out")) & (found["different"] > 0)] if len(found) else found
    return kept.to_dict("records")


def _head(results: Sequence[dict]) -> Iterable[str]:
    days = {sitting["created_unix_s"] for data in results for sitting in data["sittings"]}
    commits = {sitting["commit"] or "unknown" for data in results for sitting in data["sittings"]}
    minutes = sum(sitting["elapsed_s"] for data in results for sitting in data["sittings"]) / 60
    ran = sum(bool(data["live"]) for data in results)
    if not ran:
        yield f"Programs that are predicted: {sum(bool(data['predicted']) for data in results)}; none ran live yet."
    else:
        dates = ", ".join(sorted({time.strftime("%Y-%m-%d", time.gmtime(day)) for day in days}))
        budget = f"{min(map(live_rounds.spent_s, results)):.0f} to {max(map(live_rounds.spent_s, results)):.0f}"
        yield (
            f"{ran} of {len(results)} programs ran live, for {budget} s of CPU time each; {dates}, heaptape "
            f"{', '.join(sorted(commits))}, {minutes:.0f} minutes."
        )
    yield from _states(results)
    yield ""


def _states(results: Sequence[dict]) -> Iterable[str]:
    shares = {data["app"]["name"]: disturbance(data) for data in results if data["live"]}
    if not shares:
        return
    known = {name: share for name, share in shares.items() if not np.isnan(share)}
    loud = [f"{name} ({share:.0f} %)" for name, share in known.items() if share > QUIET_PERCENT]
    loads = [sitting["load_before"][0] for data in results for sitting in data["sittings"]]
    spread = f"{min(known.values()):.1f} to {max(known.values()):.1f} %" if known else "an unknown share"
    yield (
        f"Other programs and the hypervisor took {spread} of all processors' time (median over a program's rounds); "
        f"load before: {min(loads):.1f} to {max(loads):.1f}."
        + (f" **The machine was not quiet** (more than {QUIET_PERCENT:g} %) under {', '.join(loud)}." if loud else "")
    )


def _summary_table(table: pd.DataFrame) -> Iterable[str]:
    found = summary(table)
    if found.empty:
        return
    yield (
        f"| programs | pairs | different | {SAME} | undecided | right | outright: right | size off: median | "
        "90th percentile | worst | | live change in the interval | contradicted | target |"
    )
    yield "|---|" + "---:|" * 9 + "---|---:|---:|---|"
    shown = found[found["group"].isin(("all", "held-out"))]
    for number, row in enumerate(shown.to_dict("records")):
        cells = [f"{row['group']}, {row['apps']}", row["pairs"], row["different"], row["same"], row["undecided"]]
        cells += [f"{row['right']} ({percent(row['right_percent'])})" if row["different"] else "–"]
        cells += [f"{row['outright_right']} of {row['outright']}", percent(row["median"]), percent(row["p90"])]
        cells += [percent(row["worst"]), row["worst_at"], f"{row['holds']} of {row['different'] + row['same']}"]
        cells += [f"{row['contradicted']} of {row['same']}", TARGET if number == 0 else ""]
        yield "| " + " | ".join(map(str, cells)) + " |"
    yield ""


def _failures(results: Sequence[dict]) -> Iterable[str]:
    lines = list(failures(results))
    yield from [*lines, ""] if lines else []
