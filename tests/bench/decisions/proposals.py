# SPDX-License-Identifier: MIT
"""How well `heaptape blame` ranks experiments: promised savings of its proposals against savings in replays, over the
planted programs and tests/bench/whatif. Prints per experiment the share of RSS that it promises to save, that it saves,
and that the allocator additionally keeps empty, in percent; and Spearman's rank correlation.

    .venv/bin/python -m tests.bench.decisions.proposals [-a ALLOCATOR]... [PROGRAM]...
"""

import argparse
import tempfile
from pathlib import Path

import pandas as pd
from heaptape.common.home import Home, default_home
from heaptape.passes import proposals
from heaptape.passes.blame_data import of_allocators, position_at
from heaptape.results.schema import Results
from heaptape.run import registry, replay, rounds, whatif

from tests.support import OUT, RECORD, succeed

PROGRAMS = {
    "pinner": ("planted_pinner", "1000"),
    **{f"memory {mode}": ("planted_memory", mode) for mode in ("leak", "retention", "fragmentation", "well")},
    **{name: ("whatif_programs", name, "plain", "25") for name in
       ("waves", "documents", "lines", "strings", "pages", "connections")},
}  # fmt: skip
ALLOCATORS = ("glibc", "jemalloc:decay-0", "tcmalloc", "mimalloc")
GROUPS = 3  # of each program


def compare(name: str, allocators: list[str], home: Home, scratch: Path) -> pd.DataFrame:
    """`proposals.tried` of all actions on the GROUPS groups of the program that promise most, where RSS exceeds live
    bytes most; and column program.
    """
    tape = scratch / "p.tape"
    succeed(RECORD, "--stacks", "-o", tape, "--", OUT / "test-programs" / PROGRAMS[name][0], *PROGRAMS[name][1:])
    choices = registry.choose_all(allocators, registry.load(home))
    work = replay.prepare(str(tape), home, scratch, origins=True)
    about = replay.describe_workload(work, name)
    settings = rounds.Settings(1, passes=("blame",))
    there = of_allocators(Results("", replay.replay(work, about, choices, settings, home)))
    positions = {label: position_at(found, "widest") for label, found in there.items()}
    offers = pd.concat([proposals.estimates(found, label, positions[label]) for label, found in there.items()])
    if offers.empty:
        return offers
    most = offers.groupby("group")["saving_bytes"].max().nlargest(GROUPS).index
    tried = whatif.experiments(list(dict.fromkeys(offers["experiment"][offers["group"].isin(most)])), together=False)
    at = tuple(map(str, sorted(set(positions.values()))))
    job = whatif.Job(tape, tried, choices, rounds.Settings(1, passes=("blame",), at=at))
    file = Results("", whatif.run(job, home, scratch))
    return proposals.tried(file, offers, positions).dropna(subset=["saving_bytes"]).assign(program=name)


def correlation(rows: pd.DataFrame) -> str:
    """Spearman's rank correlation of the promised share of RSS with the freed share (saved, or kept empty by the
    allocator), and with the saved share alone.
    """
    promised, saved, left = (
        rows[key] / rows["rss_bytes"] for key in ("saving_bytes", "found_saving_bytes", "found_left_bytes")
    )
    freed, only = (promised.corr(found, method="spearman") for found in (saved + left, saved))
    return f"{len(rows)} experiments, rank correlation {freed:.2f} of freed, {only:.2f} of saved shares"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS), metavar="PROGRAM")
    parser.add_argument("-a", "--allocator", action="append")
    arguments = parser.parse_args()
    home, parts = default_home(), []
    for name in arguments.programs:
        with tempfile.TemporaryDirectory() as scratch:
            parts.append(compare(name, arguments.allocator or list(ALLOCATORS), home, Path(scratch)))
        for _, row in parts[-1].iterrows():
            keys = ("saving_bytes", "found_saving_bytes", "found_left_bytes")
            shares = " ".join(f"{100 * row[key] / row['rss_bytes']:7.1f}" for key in keys)
            print(f"{name:22} {row['allocator']:16} {row['experiment']:42} {shares}", flush=True)
    whole = pd.concat(parts, ignore_index=True)
    print(f"all: {correlation(whole)}")
    for key in ("action", "allocator", "program"):
        for value, rows in whole.assign(action=whole["action"].str.partition("=")[0]).groupby(key):
            if len(rows) > 2:
                print(f"{key} {value}: {correlation(rows)}")


if __name__ == "__main__":
    main()
