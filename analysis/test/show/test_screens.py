# SPDX-License-Identifier: MIT
"""What commands print by default: a screen at most, at any width, and never a broken cell. Long: commands that run
engines, at two more widths.
"""

import json
import re
from importlib.util import find_spec

import pytest
from heaptape.commands.main import COMMANDS, GROUPS, make_parser, overview, parsers_of_commands
from heaptape.commands.programs import PROGRAMS
from heaptape.common.tables import Cell, Table, render_text
from heaptape.decide.answer import answer
from heaptape.show.screen import MOST_ROWS, answer_table, of_answer, render
from hypothesis import given
from hypothesis import strategies as st
from results.planted import keep_measurement
from show.test_answer import counted
from synthetic_results import make_results

from tests.support import HEAPTAPE, call_heaptape, import_text, succeed

LINES = 24
NUMBER = re.compile(r"^[+-]?[0-9][0-9,.]*( [KMG]iB| %| M| k| G)?$")


@pytest.mark.parametrize("method", ["t", "bootstrap"])
def test_the_tables_that_are_to_be_typed_have_the_intervals_that_were_asked_for(tmp_path, method):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(make_results(repeats=2)))
    text, found = (call_heaptape("compare", path, "--ci", method, *form).stdout for form in ([], ["--json"]))
    asked = [command for command in json.loads(found)["next"] if " --table " in command]
    assert [command.endswith(" --ci bootstrap") for command in asked] == [method == "bootstrap"]
    assert ("--ci bootstrap" in text) == (method == "bootstrap")


@pytest.fixture(scope="module", autouse=True)
def costs_that_no_other_test_measures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    keep_measurement(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    """Objects of three sizes; most are freed."""
    lines = [f"{i} 1 malloc({(24, 200, 5000)[i % 3]}) = {0x10000 + 8192 * i:#x}" for i in range(3000)]
    lines += [f"{3000 + i} 1 free({0x10000 + 8192 * i:#x})" for i in range(2900)]
    return import_text(tmp_path_factory.mktemp("screens"), "\n".join(lines) + "\n", "clock=nanoseconds")


@pytest.fixture(scope="module")
def results(tape, tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "r.json"
    done = call_heaptape("replay", tape, "-a", "glibc", "-a", "jemalloc", "--passes", "memory,instructions", "-o", path)
    assert done.status == 0, done.stderr
    return path


SCREENS = {
    "compare": ["compare", "{results}"],
    "replay": ["replay", "{tape}", "-a", "glibc", "-a", "jemalloc", "--passes", "memory,instructions", "-o", "{made}"],
    "advise": ["advise", "{tape}", "-a", "mimalloc"],
    "tune": ["tune", "{tape}", "-a", "glibc", "--budget", "4", "-o", "{made}"],
    "gate": ["gate", "--old", "glibc", "--new", "jemalloc", "--minimise", "none", "--tolerate", "rss=1%", "{tape}"],
    "blame": ["blame", "{tape}"],
    "whatif": ["whatif", "{tape}", "-g", "size=24=remove", "--passes", "memory", "-o", "{made}"],
    "profile": ["profile", "{tape}"],
    "info": ["info", "{tape}"],
    "info of all": ["info", "{tape}", "--table", "all"],
    "record": ["record", "-o", "{cut}", "--", "sh", "-c", "ls / >/dev/null; exec ls -l /etc >/dev/null"],
}


def present(words: list[str]) -> bool:
    """Whether this checkout has the command, and what it needs: a feature's folder may be deleted."""
    return words[0] in (*PROGRAMS, *COMMANDS, "help") and (words[0] != "tune" or find_spec("optuna") is not None)


SCREENS = {name: words for name, words in SCREENS.items() if present(words)}
CHEAP = ("compare", "profile", "info", "info of all", "record")  # the others run engines at each width
WIDTHS = [(command, (60, 80, 200) if command in CHEAP else (80,)) for command in SCREENS]
WIDTHS += [pytest.param(command, (60, 200), marks=pytest.mark.long) for command in SCREENS if command not in CHEAP]


@pytest.mark.parametrize(("command", "widths"), WIDTHS)
def test_a_command_prints_a_screen_at_most_and_nothing_is_wider_or_broken(
    command, widths, tape, results, tmp_path, monkeypatch
):
    """What `record` prints differs a little from run to run, as sizes of files do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tape").symlink_to(tape)
    (tmp_path / "r.json").symlink_to(results)
    shown = {}
    for width in widths:
        places = {"tape": "a.tape", "results": "r.json", "made": f"{width}.json", "cut": f"{width}.tape"}
        monkeypatch.setenv("COLUMNS", str(width))
        words = [word.format(**places) for word in SCREENS[command]]
        done = succeed(HEAPTAPE, *words) if words[0] in PROGRAMS else call_heaptape(*words)
        assert done.status == (1 if command == "gate" else 0), done.stderr
        shown[width] = (done.stderr if command == "record" else done.stdout).splitlines()
        assert [line for line in shown[width] if len(line) > width] == []
    assert 80 not in shown or 2 <= len(shown[80]) <= {"info": 12, "record": 9}.get(command, LINES)
    numbers = {width: set(re.findall(r"[0-9][0-9,.]*[0-9]", " ".join(lines))) for width, lines in shown.items()}
    for width in () if command == "record" else widths:
        assert numbers[width] <= numbers[widths[-1]] | {str(width)}


@pytest.mark.parametrize("command", [one for one in ("compare", "profile", "blame", "info") if one in SCREENS])
def test_the_json_of_an_answer_has_its_sentences_and_commands(command, tape, results):
    words = [word.format(tape=tape, results=results) for word in SCREENS[command]]
    found, shown = (
        done.stdout if words[0] in PROGRAMS and (done := succeed(HEAPTAPE, *more)) else call_heaptape(*more).stdout
        for more in ([*words, "--json"], words)
    )
    found = json.loads(found)
    found = found["holders"][0] if command == "blame" else found
    shown = " ".join(shown.replace("\\\n", "").split())
    shown = re.sub(r"(--table|--by) \S+\|", r"\1 ", shown)  # the text has all to choose from, JSON what can be typed
    assert not any("|" in command for command in found["next"])
    assert found["next"]
    texts = (found["about"], *found["sentences"], *found["caveats"])
    for text in texts if command == "info" else (*texts, *found["next"]):
        assert " ".join(text.replace(": ", " ", command == "info" and text is not found["about"]).split()) in shown


@pytest.mark.parametrize("command", [one for one in ("replay", "tune", "whatif", "place") if present([one])])
def test_the_json_of_an_answer_that_needs_replays_has_its_sentences(command, tape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = SCREENS.get(command, ["place", "s.tape"])
    if command == "place":
        succeed(HEAPTAPE, "record", "--stacks", "-o", "s.tape", "--", "ls", "/etc")
    end = words.index("-o") if "-o" in words else None
    done = call_heaptape(*(word.format(tape=tape) for word in words[:end]), "--json")
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["about"]
    assert found["sentences"]
    assert all(one.startswith("heaptape ") for one in found["next"])
    assert found["next"] or command in ("replay", "place")


LONG = pytest.mark.long
RARER = [
    ["allocators"],
    ["allocators", "list"],
    ["allocators", "--variants", "glibc"],
    ["allocators", "--tunables", "glibc"],
    ["workloads"],
    ["check", "{tape}"],
    ["report", "{results}", "-o", "r.html"],
    ["observe", "--", "true"],
    ["convert", "--list"],
    ["convert", "{tape}", "{made}.txt"],
    ["top", "{tape}"],
    ["dump", "{tape}"],
    pytest.param(["fleet", "run", "{tape}", "-aglibc", "--passes=memory", "--store={made}"], marks=LONG),
    pytest.param(["fleet", "status", "{store}"], marks=LONG),
    pytest.param(["fleet", "query", "{store}"], marks=LONG),
    pytest.param(["fleet", "atlas", "{store}", "-o{made}"], marks=LONG),
    pytest.param(["place", "{stacks}", "-o{made}"], marks=LONG),
    pytest.param(["machine"], marks=LONG),
    pytest.param(
        ["minimise", "{tape}", "--old=glibc", "--new=jemalloc", "--if=rss-peak>1*old", "-o{made}"], marks=LONG
    ),
    pytest.param(["demo", "--", "ls", "/"], marks=LONG),
]

RARER = [row for row in RARER if present(row if isinstance(row, list) else row.values[0])]


@pytest.mark.parametrize("words", RARER, ids=lambda words: "-".join(words[:2]))
def test_no_line_of_a_rarer_command_is_wider_than_the_terminal_except_for_a_long_word(
    words, tape, results, tmp_path, monkeypatch
):
    """`ctl`, `compile` and `run` print no table."""
    monkeypatch.chdir(tmp_path)
    if "{store}" in words:
        succeed(HEAPTAPE, "fleet", "run", tape, "-aglibc", "-ajemalloc", "--passes=memory", "--store=store")
    if "{stacks}" in words:
        succeed(HEAPTAPE, "record", "--stacks", "-o", "s.tape", "--", "ls", "-lR", "/etc")
    for width in (60, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        places = {"tape": tape, "results": results, "made": f"{width}.out", "store": "store", "stacks": "s.tape"}
        own = [word.format(**places) for word in words]
        done = succeed(HEAPTAPE, *own) if own[0] in PROGRAMS else call_heaptape(*own)
        assert done.status == 0, done.stderr
        wide = [line for line in done.stdout.splitlines() if len(line) > width]
        assert [line for line in wide if len(line.split()) > 2] == []


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_cell_of_an_answer_is_broken_at_any_width(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"allocator{i}-with-a-long-name:and=a,setting={i}" for i in range(14)]
    costs = {name: (10**9 + i * 10**8, 100, 20 + 10 * i) for i, name in enumerate(names)}
    found = answer([counted("p", {"glibc": (2e9, 100, 50), **costs})], "glibc")
    text = render(of_answer(found))
    assert len(text.splitlines()) <= LINES or width < 80
    assert len(answer_table(found).rows) == MOST_ROWS
    assert "6 more allocators" in text
    cells = [cell.text for row in answer_table(found).rows for cell in row if NUMBER.match(cell.text)]
    shown = {part for line in text.splitlines() for part in re.split(r"  +", line.strip())}
    kept = [cell for cell in cells if cell in shown]
    assert kept if width == 60 else len(kept) >= MOST_ROWS
    assert all("…" not in part or not part[:1].isdigit() for part in shown)


WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40)


ROWS = st.lists(st.tuples(WORDS, st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=5)


@given(ROWS, st.integers(30, 120))
def test_figures_are_whole_or_left_out(rows, width):
    lines = [[Cell(name), Cell(f"{one:,}", one), Cell(f"{two:,}", two)] for name, one, two in rows]
    text = render_text([Table("", ["name", "one", "two"], lines)], width).splitlines()
    drawn = text[1 : 1 + len(rows)]
    for line, (_, one, two) in zip(drawn, rows):
        figures = line.split()[1:]
        assert figures in ([f"{one:,}", f"{two:,}"], [f"{one:,}"], [])
        assert len(line) <= max(width, 12)
    assert any("Left out at this width" in line for line in text) == any(len(line.split()) < 3 for line in drawn)


def test_the_overview_names_each_command_once_and_fits_a_screen_and_a_half():
    text = overview(make_parser("none"))
    for name in (*COMMANDS, *PROGRAMS):
        rest = text[text.index("More (heaptape help all)") :]
        assert (f"\n  {name} " in text) != (re.search(rf"[ ,]{name}[,\n]", rest) is not None), name
    assert {name for names in GROUPS.values() for name in names} <= {*COMMANDS, *PROGRAMS}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("fleet",)])
def test_help_shows_twelve_options_and_help_all_the_rest(command):
    short, whole = (call_heaptape(command, option).stdout for option in ("--help", "--help-all"))
    options = re.findall(r"^  (-[a-zA-Z-]+)", short.partition("\nmessages:")[0], re.MULTILINE)
    assert len([one for one in options if one != "-h"]) <= 12
    actions = parsers_of_commands(make_parser(command))[command]._actions
    every = {option for action in actions for option in action.option_strings}
    assert [option for option in every - {"--help-all"} if option not in whole] == []


@pytest.mark.parametrize("command", ["record", "info", "dump", "check", "convert", "compile"])
def test_help_of_a_command_in_c_shows_twelve_options_and_help_all_the_rest(command):
    short, whole = (succeed(HEAPTAPE, command, option).stdout for option in ("--help", "--help-all"))
    own, every = (
        re.findall(r"^  (?:-[a-z], )?(--[a-z-]+)", text.partition("\nmessages:")[0], re.M) for text in (short, whole)
    )
    assert len(own) <= 12
    assert set(own) <= set(every)
    assert (f"--help-all shows {len(every) - len(own)} more options." in short) == (len(every) > len(own))


def test_a_recording_where_results_are_wanted_is_replayed_and_its_results_are_kept(tape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.results.json").write_text("mine")
    few = import_text(tmp_path, "0 1 malloc(24) = 0x10000\n1 1 free(0x10000)\n", "clock=nanoseconds")
    few.rename(tmp_path / "few.tape")
    done = call_heaptape("compare", "few.tape")
    assert done.status == 0, done.stderr
    assert "few.tape is a recording: replaying it; the results will be in few.2.results.json" in done.stderr
    assert "so few calls that start-up decides" in " ".join(done.stdout.split())
    assert (tmp_path / "few.results.json").read_text() == "mine"
    assert (tmp_path / "few.2.results.json").is_file()
