# SPDX-License-Identifier: MIT
"""What `heaptape advise` recommends for programs, and whether it holds: tables for docs/measurements/advice.md.

    python -m tests.bench.decisions.advice [--seconds 60] [PROGRAM...]
    python -m tests.bench.decisions.advice --steps [--seconds 60] [PROGRAM...]

The first table has each advice. --steps: CPU time as predicted by default, with data accesses, and live, of the
candidate that runs live, and its peak predicted and live; then how many live changes the ranges hold. Programs: STEPS.
Memory is exact on a busy machine; CPU time needs a quiet one. Takes --seconds for each program, with --steps more.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.harness import heading, row
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
# Not used by any document before; --steps runs these.
STEPS = {
    "xsltproc": ("xsltproc", "rows.xsl", "rows.xml"),
    "dot": ("dot", "-Tsvg", "graph.dot", "-o", "graph.svg"),
    "mujs": ("mujs", "words.js"),
    "newlisp": ("newlisp", "words.lsp"),
    "guile": ("guile", "--no-auto-compile", "words.scm"),
    "bison": ("bison", "-o", "grammar.c", "grammar.y"),
    "z3": ("z3", "queens.smt2"),
    "sassc": ("sassc", "rules.scss", "rules.css"),
}
NAMES = [word for name in ("mimalloc", "jemalloc", "tcmalloc") for word in ("-a", name)]
JS = """
var d = {}, n = 0;
for (var i = 0; i < 120000; i++) { var k = "k" + (i * 7919 % 9973); d[k] = (d[k] || []).concat(["i" + i]).slice(-3); }
for (var k in d) n += d[k].join(",").length;
print(n);
"""
LISP = """
(set 'n 0)
(for (i 0 150000) (set 'l (map string (sequence 1 (% i 9)))) (set 'n (+ n (length (join l ",")))))
(println n) (exit)
"""
SCHEME = """
(define t (make-hash-table))
(do ((i 0 (+ i 1))) ((= i 150000))
  (hash-set! t (string-append "k" (number->string (modulo (* i 7919) 30011))) (make-vector 6 i)))
(display (hash-count (const #t) t))
"""
XSL = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:template match="/r"><o><xsl:for-each select="row"><xsl:sort select="n"/><i id="{@id}"><xsl:value-of
select="concat(n, '-', substring(n, 3))"/></i></xsl:for-each></o></xsl:template></xsl:stylesheet>"""
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
    parser.add_argument("--steps", action="store_true", help="CPU time by each step, of programs not used elsewhere")
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    if not arguments.steps:
        heading("program", "calls", "advice", "saves, predicted", "costs, predicted", "live", "total CPU time, s")
    with tempfile.TemporaryDirectory() as folder:
        _write_inputs(Path(folder))
        if arguments.steps:
            _steps(arguments.programs or list(STEPS), Path(folder), arguments.seconds)
            return
        for name in arguments.programs or list(PROGRAMS):
            for cells in _rows(name, Path(folder), arguments.seconds):
                row(*cells)


def _steps(names: Sequence[str], folder: Path, seconds: float) -> None:
    """A row for each program; then coverage and sizes."""
    heading("program", "calls", "allocator", "calls, %", "with accesses, %", "live, %", "peak, %", "peak live, %")
    found = []
    for name in names:
        options = ["--accesses", "--live", "--budget", f"{seconds:g}", "--json", "--objective", "cpu", *NAMES]
        made = _advised(STEPS[name], options, folder)
        candidates = {one["label"]: one for one in made["candidates"]}
        if not made["live"]:
            row(name, f"{made['workload']['ops']:,}", f"stay: {made['picks'][0]['why']}", *[""] * 5)
            continue
        (live,) = made["live"]
        steps = {step["from"]: step for step in candidates[live["label"]]["cpu_steps"]}
        found.append(steps)
        memory = live["figures"]["memory"]
        peaks = [f"{memory[key]:+.1f}" for key in ("predicted_percent", "change_percent")]
        spans = [_span(steps.get(one)) for one in ("calls", "accesses", "live")]
        row(name, f"{made['workload']['ops']:,}", live["label"], *spans, *peaks)
    decided = [one for one in found if "live" in one and one["live"]["low"] * one["live"]["high"] > 0]
    for of in ("calls", "accesses"):
        both = [(one[of], one["live"]) for one in decided if of in one]
        held = sum(predicted["low"] <= live["percent"] <= predicted["high"] for predicted, live in both)
        off = [abs(predicted["percent"] - live["percent"]) for predicted, live in both]
        median = f"{statistics.median(off):.1f}" if off else "-"
        print(
            f"{of}: the live change is in the range of {held} of {len(both)} decided; off by {median} points (median)"
        )


def _span(step: dict | None) -> str:
    return f"{step['percent']:+.1f} ({step['low']:+.1f} to {step['high']:+.1f})" if step else "-"


def _advised(command: Sequence[str], options: Sequence[str], folder: Path) -> dict:
    words = [str(HEAPTAPE), "advise", *options, "--", *command]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if not done.stdout:
        raise SystemExit(f"{command[0]}: advise failed with status {done.returncode}")
    made = json.loads(done.stdout)
    assert isinstance(made, dict)
    return made


def _write_inputs(folder: Path) -> None:
    chance = random.Random(1)
    rows = [{"id": i, "name": f"item {i * 7919 % 100003}", "tags": ["t" * (i % 9)] * (i % 5)} for i in range(40000)]
    lines = [" ".join(f"w{chance.randrange(20000)}" for _ in range(8)) for _ in range(60000)]
    texts = {"rows.json": json.dumps(rows), "words.txt": "\n".join(lines), "lists.tcl": TCL, "rows.sql": SQL}
    texts |= {"words.py": PYTHON, "words.pl": PERL} | _inputs_of_steps(chance)
    for name, text in texts.items():
        (folder / name).write_text(text)


def _inputs_of_steps(chance: random.Random) -> dict[str, str]:
    rows = "".join(f'<row id="{i}"><n>item {i * 7919 % 100003}</n>{chance.random()}</row>' for i in range(40000))
    edges = "".join(f"n{i} -> n{chance.randrange(i)};\n" for i in range(1, 700))
    rules = "".join(f"r{i}: r{i + 1} 'a' 'b' | 'c' r{i + 1} | 'd' r{(i * 7) % 300} ;\n" for i in range(300))
    sass = "".join(
        f".c{i} {{ &:hover {{ width: {i}px + {i % 7}px; .d{i % 97} {{ color: red }} }} }}\n" for i in range(9000)
    )
    columns = range(9)
    queens = "".join(f"(declare-const q{i} Int)(assert (and (<= 0 q{i}) (< q{i} 9)))" for i in columns)
    queens += "(assert (distinct " + " ".join(f"q{i}" for i in columns) + "))"
    pairs = [(i, j) for i in columns for j in columns if i < j]
    queens += "".join(f"(assert (distinct (- q{i} q{j}) {j - i} (- {j - i})))" for i, j in pairs)
    return {
        "rows.xml": f"<r>{rows}</r>",
        "rows.xsl": XSL,
        "graph.dot": "digraph g {\n" + edges + "}\n",
        "words.js": JS,
        "words.lsp": LISP,
        "words.scm": SCHEME,
        "grammar.y": "%%\nr300: 'e' ;\n".replace("r300", "s: r0 ;\nr300") + rules,
        "queens.smt2": queens + "(check-sat)",
        "rules.scss": sass,
    }


def _rows(name: str, folder: Path, seconds: float) -> list[list[str]]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = _advised(PROGRAMS[name], ["--budget", f"{seconds:g}", "--json"], folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
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
        out.append([*about, *cells, f"{spent:.0f}"])
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
