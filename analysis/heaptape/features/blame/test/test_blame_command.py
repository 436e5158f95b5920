# SPDX-License-Identifier: MIT
"""`heaptape blame` on real programs: a planted leak, retention and fragmentation are distinguished under glibc
and jemalloc, and the site that causes it is named; wrong input gives one line.
"""

import functools
import json
import shutil
import threading
import xml.etree.ElementTree as ElementTree
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support import ALLOCATORS as KNOWN
from tests.support import HEAPTAPE_HERE, OUT, call_heaptape, compile_c, made_once, published, record, succeed

PROGRAM = OUT / "test-programs" / "planted_memory"
OBJECTS = "16384"
MODES = ("leak", "retention", "fragmentation", "well")
KINDS = dict(zip(MODES, ("leak", "retention", "fragmentation", "none"), strict=True))
ALLOCATORS = ("glibc", "jemalloc")


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each mode recorded with its call stacks; "plain": fragmentation without. Made once for all workers, as are the
    answers.
    """

    def make(folder: Path) -> None:
        folder.mkdir()
        for mode in (*MODES, "plain"):
            stacks = () if mode == "plain" else ("--stacks",)
            recorded = "fragmentation" if mode == "plain" else mode
            record(folder / f"{mode}.tape", PROGRAM, recorded, OBJECTS, options=stacks)

    folder = made_once(tmp_path_factory, "blame-tapes", make)
    return {mode: folder / f"{mode}.tape" for mode in (*MODES, "plain")}


@pytest.mark.skipif(not shutil.which("objcopy"), reason="needs binutils")
def test_names_of_a_stripped_program_come_from_a_debuginfod_server(tmp_path, monkeypatch):
    build_id = "0123456789abcdef0123456789abcdef01234567"
    source = """#include <stdlib.h>
        __attribute__((noinline)) static void *fill(void) { return malloc(30000); }
        int main(void) { for (int i = 0; i < 200; i++) if (!fill()) return 1; return 0; }"""
    program = compile_c(tmp_path / "program", source, "-g", "-O1", f"-Wl,--build-id=0x{build_id}")
    served = tmp_path / "web" / "buildid" / build_id / "debuginfo"
    served.parent.mkdir(parents=True)
    succeed("objcopy", "--only-keep-debug", program, served)
    succeed("strip", program)
    tape = tmp_path / "s.tape"
    record(tape, program, options=("--stacks",))
    said = " ".join(succeed(HEAPTAPE_HERE, "blame", tape).stdout.split())
    assert f"program lacks names: install its debug package, or heaptape blame {tape} --debuginfod." in said
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
        named = succeed(HEAPTAPE_HERE, "blame", tape, "--debuginfod").stdout
        server.shutdown()
    assert "fill < main" in named
    assert "lacks names" not in named


def allocators() -> list[str]:
    listed = json.loads(succeed(HEAPTAPE_HERE, "allocators", "--json").stdout)
    there = {row["name"] for row in listed["allocators"] if row.get("path") or row["name"] == "glibc"}
    return [name for name in ALLOCATORS if name in there]


@pytest.fixture(scope="module")
def answers(tapes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict]:
    """(mode, allocator) -> the command's answer."""
    chosen = [word for name in allocators() for word in ("-a", name)]

    def make(folder: Path) -> None:
        folder.mkdir()
        for mode in MODES:
            done = succeed(HEAPTAPE_HERE, "blame", tapes[mode], *chosen, "--json", "--by", "site")
            (folder / mode).write_text(done.stdout)

    folder = made_once(tmp_path_factory, "blame-answers", make)
    data = {mode: published("blame", (folder / mode).read_text()) for mode in MODES}
    return {(mode, row["allocator"]): row for mode in MODES for row in data[mode]["holders"]}


@pytest.mark.parametrize("mode", MODES)
def test_the_planted_cause_is_named_under_each_allocator(answers: dict[tuple[str, str], dict], mode: str) -> None:
    kinds = {name: row["kind"] for (of, name), row in answers.items() if of == mode}
    assert kinds == dict.fromkeys(allocators(), KINDS[mode])


@pytest.mark.parametrize("mode", ["leak", "fragmentation"])
def test_the_site_that_causes_it_is_named(answers: dict[tuple[str, str], dict], mode: str) -> None:
    for name in allocators():
        row = answers[mode, name]
        assert "make_survivor <" in row["sentence"], row["sentence"]
        groups = [group for group in row["groups"] if group["kind"] == "group"]
        survivors = sum(group["held_bytes"] for group in groups if group["group"].startswith("make_survivor"))
        assert survivors >= 0.95 * sum(group["held_bytes"] for group in groups)


def test_retention_is_held_by_nobody(answers: dict[tuple[str, str], dict]) -> None:
    for name in allocators():
        row = answers["retention", name]
        left = sum(group["held_bytes"] for group in row["groups"] if group["kind"] == "nobody")
        assert left >= 0.95 * sum(group["held_bytes"] for group in row["groups"])


def test_without_stacks_it_answers_by_thread_size_and_age(tapes: dict[str, Path]) -> None:
    said = " ".join(succeed(HEAPTAPE_HERE, "blame", tapes["plain"]).stdout.split())
    assert said.startswith("plain on glibc at its widest gap, after ")
    assert "Fragmentation: " in said
    assert "256 to 319 bytes" in said
    assert "The recording has no call stacks: record with --stacks." in said
    lines = succeed(HEAPTAPE_HERE, "blame", tapes["plain"], "--table", "groups").stdout.splitlines()
    for grouping, group in (("thread", "thread 0"), ("size", "256 to 319 bytes"), ("age", " ops")):
        title = next(number for number, line in enumerate(lines) if line.startswith(f"glibc: by {grouping}, at "))
        assert any(group in line for line in lines[title + 2 : title + 5])


def _said(*words: str | Path) -> str:
    return " ".join(succeed(HEAPTAPE_HERE, *words).stdout.split())


def test_proposals_have_a_command_or_one_line_says_that_there_are_none(tapes: dict[str, Path]) -> None:
    nothing = "No change to one group of objects is expected to save 1 % or more."
    assert nothing in _said("blame", tapes["retention"])
    assert nothing in _said("blame", tapes["well"], "--try", "2")
    said = succeed(HEAPTAPE_HERE, "blame", tapes["fragmentation"]).stdout
    assert "To try: give the objects of make_survivor pages of their own; expected " in " ".join(said.split())
    assert f"heaptape blame {tapes['fragmentation']} --try 1" in " ".join(said.replace("\\\n", "").split())
    # All objects are of one size, thread and phase: without call stacks there are no groups.
    assert nothing in _said("blame", tapes["plain"])


def test_files_and_differences_of_two_positions(tapes: dict[str, Path], tmp_path: Path) -> None:
    results, flame, graph = tmp_path / "r.json", tmp_path / "f.svg", tmp_path / "g.png"
    at = ("--at", "fill", "--at", "end")
    first = succeed(
        HEAPTAPE_HERE, "blame", tapes["fragmentation"], *at, "-o", results, "--flame", flame, "--graph", graph
    )
    assert "glibc: from fill to end, by site" in first.stdout
    again = succeed(HEAPTAPE_HERE, "blame", results, *at)
    assert again.stdout == first.stdout.replace(str(tapes["fragmentation"]), "fragmentation.tape")
    titles = [title.text or "" for title in ElementTree.parse(flame).iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("make_survivor — ") for title in titles)
    assert graph.read_bytes().startswith(b"\x89PNG")
    assert "From fragmentation, glibc to leak, glibc" in succeed(HEAPTAPE_HERE, "blame", results, tapes["leak"]).stdout


NO_SITES = "--by site: the recording has no call stacks: record with --stacks, or use --by thread, size or age"
WRONG = {
    ("{plain}", "--by", "site"): NO_SITES,
    ("{plain}", "--flame", "x.svg"): "--flame: the recording has no call stacks: record with --stacks",
    ("{leak}", "--by", "phase"): "--by phase: the recording has no marks, so all of it is one phase",
    ("{leak}", "--at", "9999999"): "{leak}: position 9,999,999 is beyond the end: there are 49,152 ops",
    ("{leak}", "--at", "later"): '{leak}: no mark "later"',
    ("{leak}", "-a", "hoard"): f"unknown allocator 'hoard': known are {KNOWN}, or the path of a library",
    ("no.tape",): "no.tape: no such file",
    ("{leak}", "{leak}", "{leak}"): "blame: one recording, or two to compare",
    ("{leak}", "--at", "1", "--at", "2", "--at", "3"): "blame --at: one position, or two to compare",
    ("{leak}", "{well}", "-o", "x.json"): "blame -o, --flame, --graph: of one recording only",
    ("{leak}", "--graph", "x.txt"): "blame --graph: 'x.txt' is none of .svg, .pdf, .png",
    ("{leak}", "--try", "0"): "blame --try: at least one experiment",
    ("{leak}", "--try", "1", "--at", "9999999"): "{leak}: position 9,999,999 is beyond the end: there are 49,152 ops",
    ("{leak}", "--try", "1", "--at", "1", "--at", "2"): "blame --try: of one recording, at one position",
    ("{leak}", "{well}", "--try", "1"): "blame --try: of one recording, at one position",
    ("{results}", "--try", "1"): "blame --try: {results}: experiments need the trace, as a file",
    ("{results}", "--debuginfod"): "blame --debuginfod: {results}: names are looked up in a recording, not in results",
    ("{results}", "-o", "x.json"): "blame -o: these are results already",
    ("-", "--try", "1"): "blame --try: -: experiments need the trace, as a file",
    ("{leak}", "-o", "/no/such/x.json"): "/no/such/x.json: can't be written",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_input_is_one_line(words, tapes, tmp_path, monkeypatch):
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1")
    results = tmp_path / "r.json"
    results.write_text("{}")
    places = {name: str(path) for name, path in tapes.items()} | {"results": str(results)}
    done = call_heaptape("blame", *(word.format(**places) for word in words))
    assert done.stderr == f"heaptape: {WRONG[words].format(**places)}\n"
    assert done.status in (1, 2)
    assert done.stdout == ""
