# SPDX-License-Identifier: MIT
"""Whatever two commands call by the same name is the same number, to the digits that each prints. Long: on real
recordings.
"""

import json
import math
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import heaptape
import pytest
from heaptape.commands.main import COMMANDS
from heaptape.common.home import Home
from heaptape.common.tables import Table
from heaptape.decide.answer import answer
from heaptape.results.comparing.compare import choose_baseline, exactness
from heaptape.results.schema import Results, all_results
from heaptape.show.screen import answer_table
from heaptape.show.tables.kinds import KINDS, Question
from heaptape.show.tables.usual import comparison
from matplotlib.figure import Figure

from tests.support import CONVERT, HEAPTAPE, OUT, REPOSITORY, call_heaptape, import_text, record, succeed, workload

# Programs that are recorded, and recordings of the corpus; of the largest the first 60,000 calls.
LUA = "t = {} for i = 1, 30000 do t[i % 997] = ('x'):rep(i % 300) if i % 50 == 0 then t[i % 499] = nil end end"
RECORDED = {
    "mtmalloc": [workload("mtmalloc")],
    "lua": ["lua5.4", "-e", LUA],
    "awk": ["awk", "BEGIN { for (i = 0; i < 40000; i++) a[i % 5000] = a[i % 777] i; print length(a) }"],
    "words": ["perl", "-e", 'push @{$l{$_ % 997}}, "w" x ($_ % 200) for 1 .. 40000; print scalar(keys %l)'],
}
WHOLE = ("sqlite3", "git", "memcached", "gs")
CUT = ("389-ds", "cc1", "nginx", "perl", "python3", "redis")
OTHERS = (*RECORDED, *WHOLE, *CUT)
UNITS = {"ms": 1, "byte": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SIZE = r"([0-9][0-9,.]*) (bytes?|KiB|MiB|GiB)"
# What commands say of a recording, by label. The first group is the figure, the second its unit.
SAID = {
    "calls": r"(?<![0-9])([0-9][0-9,]*) calls?\b(?! site)",
    "threads": r"(?<!the )\b([0-9][0-9,]*) threads?\b|\bthreads ¦ ([0-9][0-9,]*)",
    "peak live": rf"(?:peak live\)?|at the peak|Live bytes reach) (?:¦ )?{SIZE}",
    "whole program's peak memory": rf"whole program(?:'s)? peak memory {SIZE}",
    "most live objects": r"(?:most live objects|another time) (?:¦ )?([0-9][0-9,]*)|([0-9][0-9,]*) objects at most",
    "live at the end": r"([0-9][0-9,]*) (?:objects live )?at the end|Growth: ([0-9][0-9,]*) of",
    "requested": rf"{SIZE} requested",
}
# What tables say of an allocator: column -> the name that it stands for. Units are of the table's title or the cell.
COLUMNS = {
    "peak memory": "peak RSS, MiB", "peak RSS": "peak RSS, MiB", "RSS": "peak RSS, MiB", "mean RSS": "mean RSS, MiB",
    "mean memory": "mean RSS, MiB", "mean over calls": "mean RSS, MiB", "ideal RSS": "ideal RSS, MiB",
    "Ideal": "ideal RSS, MiB", "overhead": "OH, MiB",
    "OH": "OH, MiB", "malloc": "malloc", "free": "free", "calloc": "calloc", "Total, M": "instructions, M",
    "instructions, M": "instructions, M", "malloc instr.": "instructions, M", "Total, M cycles": "cycles, M",
    "RSS, MiB": "largest sample, MiB", "page faults": "page faults", "change": "peak RSS, %", "mean": "mean",
}  # fmt: skip

# What JSON says of a recording: key -> label.
KEYS = {
    "events": "calls", "ops": "calls that are replayed", "threads": "threads", "peak_live_bytes": "peak live",
    "ideal_rss_bytes": "peak live", "peak_live_objects": "most live objects", "live_at_end": "live at the end",
    "live_objects_end": "live at the end", "live_bytes_at_end": "bytes live at the end", "allocated_bytes": "requested",
}  # fmt: skip
# Figures of searches (run/exact.py) -> their names in COLUMNS.
SEARCHED = {"rss-peak": "peak RSS, MiB", "rss-mean": "mean RSS, MiB", "instructions": "instructions, M",
            "faults": "page faults"}  # fmt: skip


def spike(i: int) -> str:
    """Live bytes are highest for two calls that no sample meets; requests and releases by two threads; a failed call,
    which is not replayed.
    """
    lines = [f"{2 * n} {1 + n % 2} malloc({40 + 8 * (n % 50)}) = {0x10000 + 4096 * n:#x}" for n in range(3000)]
    lines += [f"6001 1 malloc({3_000_000 + i}) = 0x70000000", "6002 1 free(0x70000000)", "6002 1 malloc(77) = NULL"]
    lines += [f"{6003 + n} {1 + n % 3} free({0x10000 + 4096 * n:#x})" for n in range(2000)]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module", params=["spike", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def recording(request, tmp_path_factory) -> tuple[Path, str]:
    """A recording, and what was said as it was made."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "spike":
        return import_text(folder, spike(7), "clock=nanoseconds"), ""
    if command := RECORDED.get(request.param):
        if not shutil.which(command[0]):
            pytest.skip(f"{command[0]} is not installed")
        done = record(folder / "m.tape", *command, options=["--stacks"])
        return folder / "m.tape", done.stderr
    whole = REPOSITORY / "workloads" / "corpus" / f"{request.param}.tape"
    if request.param in WHOLE:
        return whole, ""
    succeed(CONVERT, "convert", "--slice", "progress=..60000", whole, folder / whole.name)
    return folder / whole.name, ""


@pytest.fixture(scope="module")
def results(recording, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("results") / "r.json"
    options = ["-a", "glibc", "-a", "jemalloc", "--passes", "memory,time,instructions", "-n", "2", "-o", path]
    done = call_heaptape("replay", recording[0], *options)
    assert done.status == 0, done.stderr
    return path


def plain(text: str) -> str:
    text = re.sub(r"<(script|style|svg).*?</\1>", " ", text, flags=re.DOTALL)
    text = re.sub(r"(\s*<[^>]+>)+\s*", " ¦ ", text)
    return re.sub(r"\s+", " ", unescape(text))


def interval(figure: str, unit: str = "") -> tuple[float, float]:
    """All values of which `figure` may be the rounded form."""
    figure = figure.rstrip(".,").replace(",", "")
    half = 0.5 * 10.0 ** -len(figure.partition(".")[2]) if "." in figure or unit in UNITS else 0.0
    factor = UNITS.get(unit, 1)
    return (float(figure) - half) * factor, (float(figure) + half) * factor


def said(text: str) -> Iterator[tuple[str, tuple[float, float]]]:
    for label, pattern in SAID.items():
        for groups in re.findall(pattern, text):
            found = [one for one in ([groups] if isinstance(groups, str) else groups) if one]
            yield label, interval(*found)


def keyed(data: object) -> Iterator[tuple[str, float]]:
    """(label, number) of all keys of KEYS that are of the whole recording."""
    if isinstance(data, list):
        for one in data:
            yield from keyed(one)
    elif isinstance(data, dict):
        for key, value in data.items():
            if key in KEYS and isinstance(value, int | float):
                yield KEYS[key], value
            elif key not in ("marks", "minimised", "runs", "slice"):  # of a thread, of a part, of the whole
                yield from keyed(value)


def differing(figures: dict[str, dict[str, tuple[float, float]]]) -> list[str]:
    """Labels where not all figures may be one number, with the two that are furthest apart."""
    found = []
    for label, by in figures.items():
        least, most = min(by, key=lambda who: by[who][1]), max(by, key=lambda who: by[who][0])
        if by[most][0] > by[least][1] * (1 + 1e-9):
            found.append(f"{label}: {least} {by[least]}, {most} {by[most]}")
    return found


def json_answers(tape: Path, results: Path, searches: dict[str, dict]) -> dict[str, object]:
    """Command -> its JSON."""
    python = {"profile": ["profile", tape, "--format", "json"], "compare": ["compare", results, "--json"],
              "advise": ["advise", tape, "-a", "jemalloc", "--json"], "blame": ["blame", tape, "--json"],
              "diff": ["diff", tape, tape, "--json"]}  # fmt: skip
    found = {name: call_heaptape(*words).stdout for name, words in python.items() if words[0] in COMMANDS}
    found |= {name: succeed(HEAPTAPE, name, tape, "--json").stdout for name in ("info", "check")}
    return {
        "replay": all_results(results)[0].data,
        **searches,
        **{name: json.loads(text) for name, text in found.items()},
    }


@pytest.fixture(scope="module")
def searches(recording, tmp_path_factory) -> dict[str, dict]:
    """What gate and tune found of it, as JSON."""
    made = tmp_path_factory.mktemp("searches")
    wanted = {"gate": ["--old", "glibc", "--new", "jemalloc", "--minimise", "none", "--artefacts", made / "a"],
              "tune": ["-a", "glibc", "--objective", "rss-peak,rss-mean,instructions", "--budget", "3", "--storage",
                       made / "journal"]}  # fmt: skip
    wanted = {name: words for name, words in wanted.items() if name in COMMANDS}
    return {name: json.loads(call_heaptape(name, recording[0], *words, "--json").stdout)
            for name, words in wanted.items()}  # fmt: skip


def answers(tape: Path, results: Path, made: Path, recorded: str) -> dict[str, str]:
    """Command -> its text, in words."""
    drawn = {
        "r.html": ["report", results, "-o", made / "r.html"],
        "p.html": ["profile", tape, "--format=html", "-o", made / "p.html"],
    }
    drawn = {name: words for name, words in drawn.items() if words[0] in COMMANDS}
    assert all(call_heaptape(*words).status == 0 for words in drawn.values())
    python = {
        "compare": ["compare", results], "compare all": ["compare", results, "--table", "all"],
        "profile": ["profile", tape], "compare md": ["compare", results, "--format", "md"], "top": ["top", tape],
        "compare csv": ["compare", results, "--table", "memory", "--format", "csv"], "diff": ["diff", tape, tape],
        "pack": ["pack", tape, "-o", made / "p.tape"], "blame": ["blame", tape],
    }  # fmt: skip
    if tape.stem in (*OTHERS, "m"):  # these replay it
        python |= {
            "advise": ["advise", tape, "-a", "jemalloc"], "whatif": ["whatif", tape, "-a",
            "glibc", "-g", "size=24=remove", "--passes", "memory", "-o", made / "w.json"],
        }  # fmt: skip
    if tape.stem == "m":
        python["place"] = ["place", tape]
    python = {name: words for name, words in python.items() if words[0] in COMMANDS}
    texts = {name: call_heaptape(*words).stdout for name, words in python.items()}
    for name in ("info", "check"):
        texts[name] = succeed(HEAPTAPE, name, tape).stdout
    texts["info all"] = succeed(HEAPTAPE, "info", tape, "--table", "all").stdout
    pages = {name: (made / name).read_text() for name in drawn}
    return {name: plain(text) for name, text in (texts | pages | {"record": recorded}).items()}


def test_what_commands_say_of_a_recording_under_one_name_is_one_number(recording, results, searches, tmp_path):
    tape, recorded = recording
    figures = defaultdict(dict)
    for command, data in json_answers(tape, results, searches).items():
        for n, (label, value) in enumerate(keyed(data)):
            figures[label][f"{command} --json {n}"] = (value, value)
    for command, text in answers(tape, results, tmp_path, recorded).items():
        for n, (label, value) in enumerate(said(text)):
            figures[label][f"{command} {n}"] = value
    info = json.loads(succeed(CONVERT, "info", tape, "--json").stdout)
    exact = {"calls": info["events"], "threads": info["threads"], "peak live": info["peak_live_bytes"],
             "most live objects": info["peak_live_objects"], "live at the end": info["live_at_end"]}  # fmt: skip
    if "profile" in COMMANDS:
        exact["requested"] = heaptape.profile(tape, Home(OUT)).data["allocated_bytes"]
    for label, value in exact.items():
        figures[label]["--json"] = (value, value)
    assert differing(figures) == []
    assert all(len(figures[label]) >= 3 for label in exact if label != "requested")


def cells(title: str, table: Table) -> Iterator[tuple[str, str, str]]:
    """(allocator, what, text) of a table's cells whose columns are of COLUMNS."""
    title = title.lower()
    for row in table.rows:
        names = [cell.text for cell in row[: table.text_columns]]
        if title.startswith("latency") and names[0] != "all sizes":
            continue
        allocator = re.sub(r" [0-9.]+.*", "", names[-1])
        for column, cell in zip(table.columns[table.text_columns :], row[table.text_columns :]):
            name = COLUMNS.get(" ".join(column.split()))
            if not name or not re.match(r"^[+-]?[0-9]", cell.text):
                continue
            of_latency = re.match(r"latency of (\w+)", title)
            if name == "mean":
                name = of_latency[1] if of_latency else ""
            kind = "cycles" if "cycles" in title else "instructions" if "instr" in title else ""
            percent = "%" in title.partition("—")[0] or "%" in cell.text
            if name in ("malloc", "free", "calloc"):
                name = f"{name}, {kind}"
            if percent:
                name = f"{name.removesuffix(', MiB').removesuffix(', %')}, % of the baseline"
            yield allocator, name, cell.text


def number(text: str, name: str) -> tuple[float, float]:
    """As `interval`; whole numbers may be rounded."""
    found = re.match(r"([+-]?)([0-9][0-9,.]*) ?(bytes?|[KMG]iB|[kMG]|%)?( [(±]|$)", text)
    assert found, text
    unit = found[3] or (name[-3:] if name.endswith("MiB") else name[-1] if name.endswith(" M") else "")
    factor = UNITS.get(unit, {"k": 1e3, "M": 1e6, "G": 1e9}.get(unit, 1))
    low, high = (end / UNITS["MiB"] * factor for end in interval(found[2], "MiB"))
    low, high = (-high, -low) if found[1] == "-" else (low, high)
    return (low + 100, high + 100) if found[1] and name.endswith("% of the baseline") else (low, high)  # a change


def drawn(file: Results) -> Iterator[tuple[str, str, float]]:
    """(allocator, what, number) of what pictures show."""
    if "plot" not in COMMANDS:
        return
    from heaptape.features.plot import pictures

    figure = {kind: Figure(figsize=(7, 4), layout="constrained") for kind in ("memory", "scatter", "calls", "latency",
              "peak")}  # fmt: skip
    for kind, one in figure.items():
        pictures.KINDS[kind](one, file, pictures.Look())
    (memory,), (scatter,), (peak,) = (figure[kind].axes for kind in ("memory", "scatter", "peak"))
    for line in memory.lines:
        if line.get_label() in file.labels:
            yield line.get_label(), "peak RSS, MiB", max(line.get_ydata()) * UNITS["MiB"]
    for name in scatter.texts:
        for what, value in zip(("instructions, M", "peak RSS"), name.xy):
            yield name.get_text(), f"{what}, % of the baseline", value
    for at, name in enumerate(peak.get_yticklabels()):
        yield (
            name.get_text(),
            "largest sample, MiB",
            sum(part[at].get_width() for part in peak.containers) * UNITS["MiB"],
        )
    for axes in figure["calls"].axes:
        call = re.match(r"instructions (?:in|per) (.*),", axes.get_xlabel())[1]
        what = "instructions, M" if call == "all calls" else f"{call}, instructions"
        for row, bar in zip(axes.get_yticklabels(), axes.containers):
            yield row.get_text(), f"{what}, % of the baseline", bar[0].get_xdata()[0]
    for axes in figure["latency"].axes:
        (means,) = (one for one in axes.collections if one.get_label() == "mean")
        for row, (value, _) in zip(axes.get_yticklabels(), means.get_offsets()):
            yield row.get_text(), f"{axes.get_title()}, cycles", value


def searched(searches: dict[str, dict]) -> Iterator[tuple[str, str, str, float]]:
    """(command, allocator, what, number) of gate and tune."""
    for name, one in searches["gate"]["workloads"][0]["figures"].items() if "gate" in searches else ():
        for side, allocator in (("old", "glibc"), ("new", "jemalloc")):
            yield "gate", allocator, name, min(one[side])
    for point in searches["tune"]["points"] if "tune" in searches else ():
        if not point["settings"]:
            for name, value in next(iter(point["figures"].values())).items():
                yield "tune", "glibc", name, value


def test_what_tables_and_pictures_say_of_an_allocator_under_one_name_is_one_number(results, searches):
    files = all_results(results)
    question = Question(files, choose_baseline(files, None))
    shown = {
        "answer": [answer_table(answer(files, question.baseline))],
        "usual": comparison(files, question.baseline),
    }
    for kind in ("latency", "published", "overhead", "fragmentation"):
        if kind in KINDS:
            shown[kind] = KINDS[kind].view(KINDS[kind].frame(question), question)
    figures = defaultdict(dict)
    for kind, tables in shown.items():
        for table in tables:
            for allocator, name, text in cells(table.title, table):
                figures[f"{allocator}: {name}"][f"{kind}, {table.title}: {text}"] = number(text, name)
    of_tables = set(figures)
    same = exactness(files[0].figures()).droplevel("workload")["peak_rss"]  # not where an allocator reads the clock
    for allocator, name, value in drawn(files[0]):
        if not same[allocator]:
            continue
        figures[f"{allocator}: {name}"][f"plot {value}"] = (value, value)
    for command, allocator, name, value in searched(searches):
        if name in SEARCHED and same[allocator]:
            figures[f"{allocator}: {SEARCHED[name]}"][f"{command}: {value}"] = (value, value)
    assert differing(figures) == []
    assert sum(len(by) >= 2 for by in figures.values()) >= 12
    assert len(set(figures) - of_tables) <= 5, set(figures) - of_tables  # what only a picture says


def ranges(text: str) -> list[tuple[str, str]]:
    return re.findall(r"\(([-+]?[0-9.]+) to ([-+]?[0-9.]+)\)", text)


def test_a_change_of_cpu_time_and_its_range_are_the_same_in_answer_table_words_and_json(results):
    files = all_results(results)
    said = answer(files, choose_baseline(files, None))
    question = Question(files, said.baseline)
    frame = KINDS["time"].frame(question)
    whole = frame[frame["part"] == "all"].set_index("allocator")
    table, words = KINDS["time"].view(frame, question)[:2]
    rows = {row[0].text: row[1].text for row in table.rows}
    answered = {re.sub(r" [0-9.]+.*", "", row[0].text): row[1].text for row in answer_table(said).rows}
    compared = [row for row in said.rows if row.cpu]
    assert compared
    for row in compared:
        if not math.isnan(row.cpu.percent):
            continue  # of the CPU time of the recording; the table has percent only where the program's own was counted
        exact = [row.cpu.ms, row.cpu.ms_low, row.cpu.ms_high]
        assert exact == [whole.at[row.label, key] / 1e6 for key in ("ns", "ns_low", "ns_high")]
        low, high = interval(re.search(r"[0-9.]+", answered[row.label])[0], "ms")
        assert low <= abs(exact[0]) <= high or "to" in answered[row.label]
        (ends,) = ranges(rows[row.label])
        for end, shown in zip(exact[1:], ends):
            low, high = interval(shown.lstrip("+-"), "ms")
            assert low <= abs(end) <= high
        line = next(one for one in words.notes if one.startswith(f"{row.label} against"))
        undecided = re.findall(r"predicted, ([-+][0-9.]+) to ([-+][0-9.]+) ms", line)
        spoken = sorted(abs(float(one)) for one in (undecided or ranges(line))[0])
        assert spoken == [pytest.approx(abs(end), rel=0.05, abs=0.05) for end in sorted(exact[1:], key=abs)]


def test_replay_prints_what_compare_prints_of_its_results(recording, tmp_path):
    replayed = call_heaptape("replay", recording[0], "-a", "glibc", "-a", "jemalloc", "-o", tmp_path / "r.json")
    assert replayed.stdout == call_heaptape("compare", tmp_path / "r.json").stdout
