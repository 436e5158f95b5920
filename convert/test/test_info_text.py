# SPDX-License-Identifier: MIT
"""What `info` says for people has every figure of its JSON: against a model of its rows."""

import json
import re
import shlex
import subprocess
import time

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.support import OUT

PLURALS = {
    "unseen_frees": ("free of an object never seen", "frees of objects never seen"),
    "double_frees": ("double free", "double frees"),
    "overlapping_acquires": ("object at an address in use", "objects at addresses in use"),
    "inversions_repaired": ("step in wrong order", "steps in wrong order"),
    "arguments_changed": ("call with changed arguments", "calls with changed arguments"),
    "failed_calls": ("failed call", "failed calls"),
}
SAID = {"truncated": "the end is missing (truncated)"}
DOUBTS = {"lacks_start": "began after the program did", "lacks_calls": "lacks calls throughout"}
LIBRARIES = {
    "libc.so.6": "glibc",
    "libjemalloc.so.2": "jemalloc",
    "libc.so.6 and toy": "libc.so.6 and toy",
    "own": "own",
}
CALLS = ["malloc", "free", "calloc", "realloc", "memalign"]
COUNT = st.one_of(st.integers(0, 3), st.integers(0, 1 << 45))
POSITIVE = st.one_of(st.integers(1, 3), st.integers(1, 1 << 45))
PERCENT = st.floats(0.1, 99)
BURSTS = ["program_instructions", "outside_program_instructions", "outside_allocator_instructions", "program_syscalls"]


def some(**keys) -> st.SearchStrategy:
    return st.fixed_dictionaries({}, optional=keys)


FIGURES = st.fixed_dictionaries(
    {
        "info": some(
            program=st.just("toy"),
            source=st.sampled_from(["heaptape-record 0.1", "ltrace"]),
            allocator=st.sampled_from(list(LIBRARIES)),
            allocator_version=st.just("5.3"),
            linked=st.just("own"),
            settings=st.just({"A": "1", "B": "x"}),
            start_unix_ns=st.integers(10**18, 2 * 10**18),
            note=st.just("by hand"),
            lacks=st.lists(st.sampled_from(["start", "calls", "times"]), min_size=1, unique=True),
            rotation=st.fixed_dictionaries(
                {"file": COUNT, "first": st.just(2), "oldest_kept": st.integers(1, 4), "set": st.just("s1")}
            ),
        ),
        "calls": st.dictionaries(st.sampled_from(CALLS), POSITIVE, min_size=1),
        "events": POSITIVE,
        "peak_live_bytes": COUNT,
        "peak_live_objects": COUNT,
        "live_at_end": COUNT,
        "file_bytes": COUNT,
        "footer": some(
            note=st.just("lines left out"),
            end=st.sampled_from(["exec", "exit"]),
            budget=st.fixed_dictionaries(
                {"percent": PERCENT, "used_percent": PERCENT, "bursts": COUNT, "recorded_ns": COUNT, "ns": COUNT}
            ),
        ),
    },
    optional={
        "kind": st.sampled_from(["trace", "workload"]),
        "bytes_per_event": st.floats(0.01, 50),
        "threads": COUNT,
        "duration_ns": COUNT,
        "dropped": COUNT,
        "stack_nodes": COUNT,
        "truncated": st.booleans(),
        "columns": st.just(["latency", "stacks"]),
        "thread_names": st.dictionaries(st.integers(0, 99).map(str), st.just("worker"), max_size=20),
        "marks": st.lists(
            st.fixed_dictionaries({"time_ns": COUNT, "thread": COUNT, "text": st.just("phase")}), max_size=24
        ),
        "accesses": st.fixed_dictionaries(
            {"rows": POSITIVE}, optional=dict.fromkeys(["bursts", "lost", "objects", *BURSTS], COUNT)
        ),
        "recorded": some(rss_anon_peak_bytes=COUNT, vm_size_peak_bytes=COUNT),
        "witness": st.fixed_dictionaries(
            {"ok": st.booleans()},
            optional={
                **dict.fromkeys(PLURALS, COUNT),
                **dict.fromkeys(DOUBTS, st.booleans()),
                "untold_bytes_at_end": COUNT,
                "controls": st.just({"text": "3 calls of mallctl", "of": "jemalloc"}),
            },
        ),
        "next": st.just(["heaptape info --table all a.tape"]),
    },
)


def counted(value: int, noun: str) -> str:
    return f"{value:,} {noun}" + "s" * (value != 1)


def size(value: float) -> str:
    if value < 1024:
        return counted(int(value), "byte")
    units = ["KiB", "MiB", "GiB"]
    value /= 1024
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return (f"{int(value + 0.5):,}" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f}") + f" {units[0]}"


def whole_size(value: int) -> str:
    return size(value) + (f" ({value:,} bytes)" if value >= 1024 else "")


def seconds(ns: float) -> str:
    return f"{ns / 1e9:.3f} s" if ns < 1e9 else f"{ns / 1e9:.1f} s"


def origin(figures: dict) -> str:
    about = figures["info"]
    first = [f"{about.get('program', 'an unnamed program')}: {counted(figures['events'], 'call')}"]
    first += [counted(figures["threads"], "thread")] if "threads" in figures else []
    first += [seconds(figures["duration_ns"])] if "duration_ns" in figures else []
    second = "A workload, recorded" if figures.get("kind") == "workload" else "Recorded"
    if "allocator" in about:
        library = about.get("linked", about["allocator"])
        second += f" on {LIBRARIES[library]}"
    second += " " + about["allocator_version"] if "allocator_version" in about else ""
    second += ", linked" if "linked" in about else ""
    second += " with A=1 B=x" if "settings" in about else ""
    source = about.get("source", "an unnamed source")
    second += f"; source: {source}" if source != "heaptape-record 0.1" else ""
    if "start_unix_ns" in about:
        second += time.strftime(", %Y-%m-%d %H:%M UTC", time.gmtime(about["start_unix_ns"] // 10**9))
    return f"{', '.join(first)}. {second}."


def calls(figures: dict) -> str:
    total = sum(figures["calls"].values())
    order = sorted(figures["calls"].items(), key=lambda call: (-call[1], call[0]))
    rare = [call for call in order if 100 * call[1] < total]
    rows = [f"{name} {count:,}" for name, count in order if 100 * count >= total]
    if rare:
        rows.append(f"{rare[0][0] if len(rare) == 1 else 'other'} {sum(count for _, count in rare):,}")
    return ", ".join(rows)


def history(figures: dict) -> list[str]:
    witness = figures.get("witness", {})
    said = ["legal" if witness["ok"] else "NOT legal: see heaptape check"] if witness else []
    for key, names in PLURALS.items():
        said += [f"{witness[key]:,} {names[witness[key] != 1]}"] if witness.get(key) else []
    said += [f"{counted(figures['dropped'], 'call')} not recorded"] if figures.get("dropped") else []
    said += [words for key, words in SAID.items() if figures.get(key)]
    return said + [words for key, words in DOUBTS.items() if witness.get(key)]


def parts(figures: dict) -> list[str]:
    accesses, said = figures.get("accesses", {}), list(figures.get("columns", []))
    if accesses.get("bursts") == 0:
        said.append("no burst of data accesses")
    elif accesses.get("rows"):
        bursts = f" in {counted(accesses['bursts'], 'burst')}" if accesses.get("bursts") else ""
        said.append(f"{accesses['rows']:,} data accesses{bursts}")
    return said + ([counted(len(figures["marks"]), "mark")] if figures.get("marks") else [])


def history_rows(figures: dict) -> list[tuple[str, str]]:
    rows = [("history", ", ".join(history(figures))), ("also", ", ".join(parts(figures)))]
    return [row for row in rows if row[1]]


def last_rows(figures: dict) -> list[tuple[str, str]]:
    about, footer = figures["info"], figures["footer"]
    rows = []
    if rotation := about.get("rotation"):
        gone = f"; files before {rotation['oldest_kept']} were deleted" if rotation["oldest_kept"] > 2 else ""
        rows.append(("rotated", f"file {rotation['file']} of recording s1, which began with file 2{gone}"))
    if budget := footer.get("budget"):
        spent = f"{budget['percent']:.3g} % of the program's CPU time; recording cost {budget['used_percent']:.3g} %"
        share = f"{seconds(budget['recorded_ns'])} of {seconds(budget['ns'])}"
        rows.append(("budget", f"{spent}; {counted(budget['bursts'], 'burst')}, {share}"))
    return rows


def notes(figures: dict) -> list[tuple[str, str]]:
    rows = [("note", figures["info"]["note"])] if "note" in figures["info"] else []
    rows += [("import", figures["footer"]["note"])] if "note" in figures["footer"] else []
    ended = "the process then executed another program, which has a recording of its own, if any"
    return rows + ([("end", ended)] if figures["footer"].get("end") == "exec" else [])


def cautions(figures: dict) -> list[str]:
    said = []
    if figures["events"] < 1000:
        said.append("So few calls that start-up decides their instructions and time.")
    untold = figures.get("witness", {}).get("untold_bytes_at_end")
    live, peak = figures["peak_live_bytes"], figures.get("recorded", {}).get("rss_anon_peak_bytes", 0)
    if untold:
        said.append(
            f"It was killed: of {size(untold)} in large objects that lived then it is not known what was touched: a "
            "replay guesses."
        )
    elif "calls" not in figures["info"].get("lacks", []) and peak - live >= 4 << 20 and live < peak / 2:
        said.append(
            f"Live bytes peak at {100 * live / peak:.0f} % of the program's peak memory: the rest is retained by "
            "the allocator, or bypasses malloc; heaptape replay tells which."
        )
    return said


def short_rows(figures: dict) -> list[tuple[str, str]]:
    rows = [("calls", calls(figures))]
    if "controls" in figures.get("witness", {}):
        rows.append(("control", "3 calls of mallctl: replayed on jemalloc alone"))
    most, end = counted(figures["peak_live_objects"], "object"), f"{figures['live_at_end']:,}"
    rows.append(("peak live", f"{size(figures['peak_live_bytes'])}; {most} at most, {end} at the end"))
    if "rss_anon_peak_bytes" in figures.get("recorded", {}):
        rows.append(
            ("whole program", f"peak memory {size(figures['recorded']['rss_anon_peak_bytes'])} (anonymous RSS)")
        )
    rows.append(("file", f"{size(figures['file_bytes'])}, {figures.get('bytes_per_event', 0):.2f} bytes per call"))
    return [*rows, *history_rows(figures), *last_rows(figures), *notes(figures)]


def count_row(label: str, figures: dict, key: str, text=lambda count: f"{count:,}") -> list[tuple[str, str]]:
    return [(label, text(figures[key]))] if key in figures else []


def listed(label: str, texts: list[str], most: int) -> list[tuple[str, str]]:
    """Rows under one label."""
    shown = [*texts[:most], *([f"... and {len(texts) - most} more"] if len(texts) > most else [])]
    return [(label if i == 0 else "", text) for i, text in enumerate(shown)]


def access_rows(accesses: dict) -> list[tuple[str, str]]:
    rows = [("rows of data accesses", f"{accesses['rows']:,}")]
    rows += [*count_row("  to objects", accesses, "objects"), *count_row("  lost", accesses, "lost")]
    if "bursts" not in accesses:
        rows += count_row("program's instructions", accesses, "program_instructions")
        return [*rows, *count_row("  system calls", accesses, "program_syscalls")]
    inside, outside = (accesses.get(key, 0) for key in BURSTS[:2])
    rows += count_row("bursts", accesses, "bursts")
    rows += count_row("  program's instructions", accesses, "program_instructions")
    if inside + outside:
        rows.append(("", f"{100 * inside / (inside + outside):.2f} % of all that the program executed"))
    rows += count_row("  system calls", accesses, "program_syscalls")
    rows += count_row("outside of bursts", accesses, "outside_program_instructions")
    return [*rows, *count_row("  allocator's instructions", accesses, "outside_allocator_instructions")]


def all_rows(figures: dict) -> list[tuple[str, str]]:
    recorded = figures.get("recorded", {})
    marks = [f"{m['time_ns'] / 1e9:.6f} s, thread {m['thread']}: {m['text']}" for m in figures.get("marks", [])]
    lacks = ", ".join(figures["info"].get("lacks", []))
    return [
        *listed("calls", [f"{name} {count:,}" for name, count in figures["calls"].items()], 99),
        *listed("thread names", [f"{number}: {name}" for number, name in figures.get("thread_names", {}).items()], 16),
        ("file", whole_size(figures["file_bytes"])),
        *count_row("bytes per call", figures, "bytes_per_event", "{:.2f}".format),
        ("peak live", whole_size(figures["peak_live_bytes"])),
        ("most live objects", f"{figures['peak_live_objects']:,}"),
        ("live objects at the end", f"{figures['live_at_end']:,}"),
        *count_row("program's peak RssAnon", recorded, "rss_anon_peak_bytes", whole_size),
        *count_row("program's peak VmSize", recorded, "vm_size_peak_bytes", whole_size),
        *count_row("nodes of call stacks", figures, "stack_nodes"),
        *history_rows(figures),
        *(access_rows(figures["accesses"]) if "accesses" in figures else []),
        *last_rows(figures),
        *listed("marks", marks, 20),
        *([("not known", lacks)] if lacks else []),
        *notes(figures),
    ]


def printed(figures: dict, *how: str) -> list[str]:
    command = ["env", "COLUMNS=9999", OUT / "test-programs/print_info", *how]
    done = subprocess.run(command, input=json.dumps(figures), capture_output=True, text=True, check=True)
    return [line.rstrip() for line in done.stdout.splitlines()]


@examples(100)
@given(FIGURES)
def test_info_says_each_figure_once(figures):
    more = ["More: heaptape info --table all a.tape"] if "next" in figures else []
    for how, rows, width, after in (([], short_rows, 14, more), (["all"], all_rows, 26, [])):
        shown = [f"{label:<{width}}{text}".rstrip() for label, text in rows(figures)]
        assert printed(figures, *how) == [origin(figures), *shown, *cautions(figures), *after]


@examples(20)
@given(FIGURES, st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_the_json_of_info_has_its_sentences_and_the_command_for_more(figures, path):
    said = json.loads(printed(figures, "said", path)[0])
    assert said["about"] == origin(figures)
    assert said["sentences"] == [f"{label}: {text}" for label, text in short_rows(figures)]
    assert said["caveats"] == cautions(figures)
    assert [shlex.split(command) for command in said["next"]] == [["heaptape", "info", "--table", "all", path]]
    assert ("'" in said["next"][0]) == bool(re.search(r"[^\w./+:@%,=-]", path, re.ASCII))


@examples(20)
@given(FIGURES)
def test_info_of_a_trace_without_calls_says_why(figures):
    dropped, why = figures.get("dropped", 0), ""
    if dropped:
        why = f": {counted(dropped, 'call')} {'was' if dropped == 1 else 'were'} made in pauses, or dropped"
    elif "calls" in figures["info"].get("lacks", []):
        why = ": those of the program's allocator bypassed the recorder"
    first = f"{figures['info'].get('program', 'an unnamed program')}: no call was recorded{why}."
    rows = [f"{label:<14}{text}" for label, text in [*last_rows(figures), *notes(figures)]]
    assert printed({**figures, "events": 0}) == [first, *rows]
