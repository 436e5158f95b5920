# SPDX-License-Identifier: MIT
"""What `heaptape advise` recommends for six programs, and whether it holds: a table for
docs/measurements/advice.md.

    python -m tests.bench.decisions.advice [--seconds 60]

Memory is exact enough on a busy machine; CPU time (--seconds: of live runs, for each program) needs a quiet one. Takes
--seconds for each program.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import tempfile
from pathlib import Path

from tests.support import HEAPTAPE

PROGRAMS = {
    "jq": ("jq", "-c", "group_by(.id % 97) | map({n: length, names: (map(.name) | sort | .[0:20])})", "rows.json"),
    "gawk": ("gawk", '{for (i = 1; i <= NF; i++) n[$i] = n[$i] " " NR} END {for (w in n) m += length(n[w]); print m}',
             "words.txt"),
    "tclsh": ("tclsh", "lists.tcl"),
    "sqlite3": ("sqlite3", ":memory:", ".read rows.sql"),
    "python3": ("env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "words.py"),
    "perl": ("perl", "words.pl"),
}  # fmt: skip
TCL = """
for {set i 0} {$i < 150000} {incr i} { dict lappend d [expr {$i * 7919 % 30011}] "item $i" }
dict for {k v} $d { incr n [llength [lsort $v]] }
puts $n
"""
SQL = """
create table t(a, b, c);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
  insert into t select i, 'row' || (i * 7919 % 100003), i * 0.5 from n;
create index x on t(b);
select count(*), length(group_concat(b)) from (select b from t order by b limit 50000);
select substr(b, 1, 4), count(*), avg(c) from t group by 1;
"""
PYTHON = """
import collections
places = collections.defaultdict(list)
for number, line in enumerate(open("words.txt")):
    for word in line.split():
        places[word].append(number)
print(len(places), sum(len(set(one)) for one in places.values()))
"""
PERL = """
open(my $file, "<", "words.txt"); my %places;
while (<$file>) { push @{$places{$_}}, "line $." for split }
my %first = map { $_ => join(",", @{$places{$_}}[0..3]) } keys %places;
delete $places{$_} for grep { /7/ } keys %places;
print scalar(keys %places), length(join("", values %first)), "\\n";
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="the budget of each (default 60)")
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    arguments = parser.parse_args()
    print("| program | calls | advice | saves, predicted | costs, predicted | live | total CPU time, s |")
    print("|---|---:|---|---|---|---|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        _write_inputs(Path(folder))
        for name in arguments.programs:
            for row in _rows(name, Path(folder), arguments.seconds):
                print(row, flush=True)


def _write_inputs(folder: Path) -> None:
    chance = random.Random(1)
    rows = [{"id": i, "name": f"item {i * 7919 % 100003}", "tags": ["t" * (i % 9)] * (i % 5)} for i in range(40000)]
    lines = [" ".join(f"w{chance.randrange(20000)}" for _ in range(8)) for _ in range(60000)]
    texts = {"rows.json": json.dumps(rows), "words.txt": "\n".join(lines), "lists.tcl": TCL, "rows.sql": SQL}
    for name, text in (texts | {"words.py": PYTHON, "words.pl": PERL}).items():
        (folder / name).write_text(text)


def _rows(name: str, folder: Path, seconds: float) -> list[str]:
    command = [str(HEAPTAPE), "advise", "--budget", f"{seconds:g}", "--json", "--", *PROGRAMS[name]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    made = json.loads(done.stdout)
    candidates = {one["label"]: one for one in made["candidates"]}
    now = candidates[made["today"]]
    live = {one["aim"]: one["line"].partition(": ")[2] for one in made["live"]}
    out = []
    for pick in made["picks"]:
        about = [name, f"{made['workload']['ops']:,}"]
        if pick["stay"]:
            cells = [f"{pick['aim']}: stay ({pick['why']})", "", "", ""]
        else:
            one = candidates[pick["use"]]
            parts = {"memory": _memory(one, now), "cpu": _cpu(one)}
            other = "cpu" if pick["aim"] == "memory" else "memory"
            cells = [f"{pick['aim']}: {pick['use']}", parts[pick["aim"]], parts[other]]
            cells.append(live.get(pick["aim"], "not run"))
        out.append("| " + " | ".join([*about, *cells, f"{spent:.0f}"]) + " |")
    return out


def _memory(one: dict, now: dict) -> str:
    peak, mean = (100 * (one[key] / now[key] - 1) for key in ("peak_bytes", "mean_bytes"))
    return f"RSS: peak {peak:+.1f} %, mean {mean:+.1f} %"


def _cpu(one: dict) -> str:
    if "cpu_percent" not in one:
        return "CPU unknown"
    return f"CPU {one['cpu_percent']:+.1f} % ({one['cpu_low_percent']:+.1f} to {one['cpu_high_percent']:+.1f})"


if __name__ == "__main__":
    main()
