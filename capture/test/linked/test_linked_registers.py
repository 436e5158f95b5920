# SPDX-License-Identifier: MIT
"""A function that is redirected at its entry leaves all registers as before: callers that gcc compiled together with it
rely on that, and only provide the stack that it needs.
"""

import platform
import re
from pathlib import Path

import pytest

from tests.support import OUT, RECORD, check, compile_c, info, record, run, succeed

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="functions are redirected on x86-64 alone")

SOURCES = Path(__file__).parent
ROUNDS = 20_000
OPTIONS = ((), ("--stacks",), ("--usable", "--latency"), ("--on-full", "drop"), ("--stamp", "every"))
VECTORS = re.compile(r"%([xyz]?mm\d|st\b|k[0-7])")


@pytest.fixture(scope="module")
def registers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("registers")
    return compile_c(folder / "registers", SOURCES / "registers.c", "-O2", "-w", "-pthread")


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_recorded_calls_leave_every_register_flag_and_vector(registers, tmp_path, options):
    record(tmp_path / "t.tape", registers, str(ROUNDS), options=options)
    about = info(tmp_path / "t.tape")
    assert about["info"]["allocator"] == "registers"
    assert about["events"] + about["dropped"] >= ROUNDS
    assert "drop" in options or about["dropped"] == 0
    assert check(tmp_path / "t.tape")["ok"]


def test_a_loop_to_a_functions_first_instruction_is_no_call_and_takes_no_stack(registers: Path, tmp_path: Path) -> None:
    looping = compile_c(tmp_path / "registers", SOURCES / "registers.c", "-O2", "-w", "-pthread", "-DLOOP")
    events = []
    for name, program in (("plain", registers), ("looping", looping)):
        record(tmp_path / name, program, str(ROUNDS))
        events.append(info(tmp_path / name)["events"])
    assert events[0] == events[1]


def test_calls_in_a_pause_leave_them_too(registers: Path, tmp_path: Path) -> None:
    done = run(RECORD, "-o", tmp_path / "t.tape", "--budget", "0.0001%", "--", registers, str(ROUNDS))
    assert done.status == 0, done.stderr


def test_a_program_in_one_piece_with_its_allocator_computes_the_same(tmp_path: Path) -> None:
    """Stack walks and longjmp also work through the hook."""
    program = compile_c(tmp_path / "one_piece", SOURCES / "one_piece.c", "-O2", "-w")
    bare = succeed(program).stdout
    expected = re.sub(r"(\d+) frames", lambda frames: f"{int(frames[1]) + 1} frames", bare)
    for options in OPTIONS:
        assert record(tmp_path / "t.tape", program, options=options).stdout == expected
        assert check(tmp_path / "t.tape")["ok"]


def functions() -> dict[str, list[str]]:
    """The instructions of each of the library's functions."""
    text = succeed("objdump", "-d", OUT / "lib" / "libheaptape.so").stdout
    parts = re.split(r"^[0-9a-f]+ <(.*)>:$", text, flags=re.MULTILINE)
    return {name: code.splitlines() for name, code in zip(parts[1::2], parts[2::2], strict=True)}


def test_the_common_cases_use_no_vectors_and_never_leave_the_library() -> None:
    """So that nothing need be saved around them."""
    code, seen, to_do = functions(), set(), ["linked_before", "linked_after"]
    while to_do:
        name = to_do.pop()
        seen.add(name)
        for line in code[name]:
            assert not VECTORS.search(line), f"{name}: {line}"
            jump = re.search(r"\s(?:call|j[a-z]+)\s+(.*)", line)
            if jump:
                target = re.search(r"<([^+>]*)", jump[1])
                assert target, f"{name} goes to where nobody knows: {line}"
                to_do += [target[1]] if target[1] not in seen else []
    assert "producer_passes" in seen
    assert not {"linked_before_slow", "linked_after_slow", "producer_enter_slow"} & seen
