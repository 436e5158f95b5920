# SPDX-License-Identifier: MIT
"""How many bytes an event takes on disk, by program and column: as recorded, archived, anonymised and archived.

    python -m tests.bench.recording.sizes [--markdown] [--keep FOLDER] [PROGRAM...]

Sizes are counts, so other work may run beside this; they repeat to about one percent, because when a thread reads the
clock depends on the machine. Programs that are not installed are left out. --keep: recordings go there, and an existing
one is not made again.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.recording.compiler_input import c_source
from tests.oracle.blocks import EVENTS
from tests.oracle.reader import open_trace
from tests.support import CONVERT, RECORD, run, succeed

COLUMNS = {
    1: "call", 2: "size", 3: "param", 4: "distance", 6: "release address", 7: "hit", 8: "acquire address",
    9: "stamp gap", 10: "stamp delta", 11: "touched", 16: "rows", 18: "live rows", 19: "far", 17: "places",
}  # fmt: skip
FORMS = {"recorded": None, "archived": ["--archive"], "anonymised": ["--archive", "--anonymise"]}

PERL = """my %seen; for my $i (1 .. 60000) { my $w = "w" . ($i * 7919 % 20011); push @{$seen{$w}{at}}, $i;
$seen{$w}{text} .= chr(97 + $i % 26) x ($i % 13); }
my @order = sort { $seen{$b}{text} cmp $seen{$a}{text} } keys %seen;
my $text = join " ", map { "$_=$seen{$_}{text}" } @order; $text =~ s/(\\w+)=(\\w+)/$2:$1/g;
my %back = map { split /:/, $_, 2 } grep { /:/ } split / /, $text; print scalar(keys %back), "\\n";"""
AWK = """BEGIN { for (i = 0; i < 200000; i++) { w = "w" (i * 7919 % 30011); n[w]++
 t[w] = t[w] substr("abcdefgh", i % 8) }
for (w in n) if (n[w] > 3) { split(t[w], part, "c"); s += length(part) } print s }"""
LUA = """local t = {} for i = 1, 100000 do local k = "k" .. (i * 7919 % 20011); t[k] = t[k] or {}
t[k][#t[k] + 1] = {i, tostring(i)} end
local n = 0 for k, v in pairs(t) do n = n + #table.concat({k, #v}, ",") end print(n)"""
RUBY = """t = {}
40000.times { |i| k = "k%d" % (i * 7919 % 20011); (t[k] ||= []) << [i, "item number %d of many more" % i] }
puts t.map { |k, v| [k, v.map(&:last).join(",")] }.sort_by(&:last).size"""
JSON = "[{}]".format(
    ",".join(f'{{"id": {i}, "name": "item {i * 7919 % 100003}", "tags": ["{"t" * (i % 12)}"]}}' for i in range(12000))
)
XML = "<a>{}</a>".format("".join(f'<row n="{i}"><name>item {i * 7919 % 100003}</name><x/></row>' for i in range(15000)))
POSTSCRIPT = """%!PS-Adobe-3.0
/Times-Roman findfont 11 scalefont setfont
1 1 60 { /n exch def 72 760 moveto (Page ) show n 10 string cvs show
  0 1 49 { /line exch def 72 740 line 14 mul sub moveto
    0 1 9 { line 31 mul add n 17 mul add 7919 mul 100003 mod 12 string cvs show ( ) show } for } for showpage } for
"""
TROFF = "".join(
    f".SH Section {i}\n.PP\nThe \\fBword\\fP number {i * 7919 % 100003} of {i}\nand more text.\n" for i in range(1500)
)
CPP = "#include <map>\n#include <string>\n#include <vector>\nstd::map<std::string, std::vector<int>> m;\n" + "".join(
    f'int f{i}(int a) {{ m["{i}"].push_back(a); return a * {i}; }}\n' for i in range(40)
)


@dataclass
class Program:
    """`command`, in a folder that holds `files`. `prepare`: a shell command that makes what else is needed there."""

    command: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    prepare: str = ""


def compiler(language: str) -> str:
    """The compiler proper; an empty string where there is none."""
    found = run("gcc", f"-print-prog-name={language}").stdout.strip() if shutil.which("gcc") else ""
    return found if Path(found).is_absolute() else ""


def library(name: str) -> str:
    return run("gcc", f"-print-file-name={name}").stdout.strip() if shutil.which("gcc") else name


# A history of 300 commits, generated: the repository that holds this file may have none.
GIT_HISTORY = """git init -q . && git config user.email a@example.org && git config user.name A && i=0
{ while [ $i -lt 300 ]; do i=$((i + 1)); f=file$((i % 25))
echo "commit refs/heads/main"; echo "committer A <a@example.org> $((1700000000 + i)) +0000"
m="change $i"; echo "data ${#m}"; echo "$m"; echo "M 644 inline $f"
seq $((i * 7 % 50)) $((i * 7 % 50 + 200)) >body; echo "data $(wc -c <body)"; cat body; done; } |
git fast-import --quiet"""

JQ = "group_by(.id % 97) | map({n: length, names: (map(.name) | sort)})"
GS = ("gs", "-q", "-dBATCH", "-dNOPAUSE", "-sDEVICE=pdfwrite", "-o", "o.pdf", "d.ps")

PROGRAMS: dict[str, Callable[[], Program]] = {
    "perl": lambda: Program(("perl", "-e", PERL)),
    "cc1": lambda: Program((compiler("cc1"), "-quiet", "-O2", "-o", "/dev/null", "s.c"), {"s.c": c_source(20)}),
    "git": lambda: Program(("git", "--no-pager", "log", "-p", "main"), prepare=GIT_HISTORY),
    "gs": lambda: Program(GS, {"d.ps": POSTSCRIPT}),
    "gawk": lambda: Program(("gawk", AWK)),
    "jq": lambda: Program(("jq", "-c", JQ, "t.json"), {"t.json": JSON}),
    "xmllint": lambda: Program(("xmllint", "--xpath", "count(//name)", "t.xml"), {"t.xml": XML}),
    "cc1plus": lambda: Program(
        (compiler("cc1plus"), "-quiet", "-O1", "-fpreprocessed", "-o", "/dev/null", "s.ii"),
        {"s.cc": CPP},
        "g++ -E -o s.ii s.cc",
    ),
    "ld": lambda: Program(("ld", "-r", "-o", "o.o", "--whole-archive", library("libc.a"))),
    "troff": lambda: Program(("troff", "-man", "-Tascii", "d.roff"), {"d.roff": TROFF}),
    "lua": lambda: Program(("lua5.4", "-e", LUA)),
    "ruby": lambda: Program(("ruby", "--disable-gems", "-e", RUBY)),
}


def record(program: Program, into: Path) -> bool:
    """Makes a recording; False where the program is not installed."""
    if not program.command[0] or not shutil.which(program.command[0]):
        return False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in program.files.items():
            (folder / file).write_text(text)
        recorder = [str(RECORD), "--no-follow", "-o", str(into.resolve()), "--"]
        environment = {**os.environ, "LC_ALL": "C", "PERL_HASH_SEED": "0"}
        for command in (["sh", "-c", program.prepare], [*recorder, *program.command]):
            subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return True


def event_columns(tape: Path) -> tuple[int, Counter[str]]:
    """Events of a trace, and the bytes of the file by column; bytes outside of event columns are `frame` (headers and
    directories of their blocks) and `rest` (all other blocks).
    """
    bytes_of: Counter[str] = Counter()
    with open_trace(tape) as trace:
        for block in trace.blocks:
            if block.type != EVENTS:
                continue
            for column in block.columns:
                bytes_of[COLUMNS.get(column.id, str(column.id))] += column.stored_bytes
            bytes_of["frame"] += block.end - block.offset - sum(column.stored_bytes for column in block.columns)
        bytes_of["rest"] = tape.stat().st_size - bytes_of.total()
        return trace.event_count, bytes_of


def forms_of(tape: Path, folder: Path) -> dict[str, tuple[int, Counter[str]]]:
    """`event_columns` of the recording and of the forms made from it in folder."""
    found = {}
    for form, options in FORMS.items():
        path = tape if options is None else folder / f"{form}.tape"
        if options is not None:
            succeed(CONVERT, "convert", *options, tape, path)
        found[form] = event_columns(path)
    return found


def _cell(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3f}".removeprefix("0") if value else ""


def print_table(title: str, rows: dict[str, dict[str, float]], markdown: bool) -> None:
    """`rows`: column -> program -> bytes per event."""
    programs = list(next(iter(rows.values())))
    cells = [[title, *programs, "median"]] + [
        [column, *(_cell(row[program]) for program in programs), _cell(statistics.median(row.values()))]
        for column, row in rows.items()
    ]  # fmt: skip
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for number, line in enumerate(cells):
        padded = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        print(f"| {' | '.join(line)} |" if markdown else "  ".join(padded))
        if markdown and number == 0:
            print("|---" * len(line) + "|")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}; default: all")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        kept = given.keep or scratch
        kept.mkdir(parents=True, exist_ok=True)
        found = {}
        for program in given.programs or PROGRAMS:
            tape = kept / f"{program}.tape"
            if tape.exists() or record(PROGRAMS[program](), tape):
                found[program] = forms_of(tape, scratch)
            else:
                print(f"{program} is not installed", file=sys.stderr)
        for form in FORMS:
            tables = {program: forms[form] for program, forms in found.items()}
            used = [c for c in [*COLUMNS.values(), "frame", "rest"] if any(t[1][c] for t in tables.values())]
            rows = {"events": {p: float(events) for p, (events, _) in tables.items()}} if form == "recorded" else {}
            rows |= {c: {p: sizes[c] / events for p, (events, sizes) in tables.items()} for c in used}
            rows["total"] = {p: sizes.total() / events for p, (events, sizes) in tables.items()}
            print_table(form, rows, given.markdown)


if __name__ == "__main__":
    main()
