# SPDX-License-Identifier: MIT
"""`python -m tests.bench.time.judge`: is today's model of time right about live programs?

Like `python -m tests.bench.fidelity --timed`, which makes the counts and the live runs, but it shows the predictions of
today's model from the counts, so that a change of the model can be examined. It has the programs of workloads/counted
and those that the model was made with. It is not the certificate, which has the predictions made before the live runs.
"""

import argparse
from pathlib import Path

import pandas as pd
from heaptape.common.home import default_home
from heaptape.results.comparing.sequential import DIFFERENT
from heaptape.run import recipes, registry
from heaptape.run.machine import of_this_machine
from heaptape.run.recipes import Recipe

from tests.bench.fidelity import counted, timed, timed_certificate, timed_document
from tests.bench.fidelity.live_rounds import Session
from tests.support import OUT

ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "reference")
PERL = """
my %h; my $s = 0;
for my $i (1..40000) { push @{$h{$i * 7919 % 5003}}, "v$i" x (1 + $i % 5); }
for my $round (1..6) { for my $k (sort keys %h) { $s += length for @{$h{$k}}; } }
my @o = sort { $a cmp $b } map { @$_ } values %h;
"""
PYTHON = """
d = {str(i): [str(i * 7), i * 2.5, {"k": "v%d" % i}] for i in range(20000)}
for r in range(4):
    s = sum(len(v[0]) + len(v[2]["k"]) for v in d.values())
e = sorted(d.items(), key=lambda kv: kv[1][0])
"""
# A list whose nodes are between cold objects, or apart, depending on the allocator.
PLANTED = (str(OUT / "test-programs" / "planted_locality"), "interleaved", "48", "200", "30000", "60")
SETTINGS = {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
OWN = {
    "planted": PLANTED,
    "perl-hashes": ("perl", "-e", PERL),
    "python3-dicts": ("/usr/bin/python3", "-S", "-c", PYTHON),
}


def known() -> dict[str, Recipe]:
    """All programs that can run here, by name."""
    here = Path(__file__).resolve()
    own = [Recipe(name, here, name, "the model's own", command, environment=SETTINGS) for name, command in OWN.items()]
    return {recipe.name: recipe for recipe in [*own, *recipes.find(counted.DIRECTORIES)] if not recipe.missing()}


def judge(recipe: Recipe, folder: Path, seconds: float) -> dict:
    """The raw result after another sitting, with the predictions of today's model."""
    home = default_home()
    allocators = registry.load(home)
    choices = [registry.choose(name, allocators) for name in ALLOCATORS if allocators[name].found]
    program = timed.Program(recipe, choices, home, recipes.cache_directory() / "timed", print)
    data = timed.judge(program, Session(seconds), folder / f"{recipe.name}.json.zst")
    return timed.predict(data, of_this_machine(home))


def table(results: list[dict]) -> pd.DataFrame:
    """The columns of docs/measurements/data/time_judge_epyc.csv."""
    rows = timed_certificate.pairs(results).rename(columns={"app": "program"})
    rows = rows.assign(decided=rows["verdict"] == DIFFERENT)
    names = ["allocator", "program", "percent", "low", "high", "live", "live_low", "live_high", "rounds", "decided"]
    return rows[[*names, "outright", "right", "verdict"]].round(2)


def main() -> None:
    """Two steps, because the second needs an idle machine: --seconds 0, which only counts, then without it."""
    there = known()
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time.judge", description=__doc__)
    parser.add_argument("programs", nargs="*", choices=[[], *there], metavar="PROGRAM", help="default: all")
    parser.add_argument("--folder", type=Path, required=True, help="raw results: made if missing, else continued")
    parser.add_argument("--seconds", type=float, default=60, help="CPU time of a program's live runs (default 60)")
    parser.add_argument("--csv", type=Path, help="also write the rows there")
    parser.add_argument("--read", action="store_true", help="run nothing live, show what is in the folder")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    seconds = 0 if arguments.read else arguments.seconds
    results = [judge(there[name], arguments.folder, seconds) for name in arguments.programs or there]
    if arguments.csv:
        table(results).to_csv(arguments.csv, index=False)
    print("\n".join(timed_document.section(results)))


if __name__ == "__main__":
    main()
