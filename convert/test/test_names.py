# SPDX-License-Identifier: MIT
"""`heaptape-convert names` names instructions of a process, from the files that are mapped there."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support import CONVERT, Result, compile_c

PROGRAM = """
#include <stdio.h>
static inline __attribute__((always_inline)) char *within(void) { return (char *)__builtin_return_address(0); }
__attribute__((noinline)) int called(void) { return printf("%p\\n", (void *)within()); }
__attribute__((noinline)) void *my_alloc(void) { __label__ here; here: return &&here; }
int calling_function(void) { return called() + 1; }
int main(void) {
  int result = calling_function() == 0;
  printf("%p\\n", my_alloc());
  puts("ready"); fflush(stdout); getchar();
  return result;
}
"""


def names(request: object, *, text: str | None = None) -> Result:
    """The result of the command for a request."""
    done = subprocess.run(
        [CONVERT, "names", "-"], input=text or json.dumps(request), capture_output=True, text=True, timeout=120
    )
    return Result(done.returncode, done.stdout, done.stderr)


def modules_of(pid: int, program: Path) -> list[dict]:
    """The program itself, as the recorder describes it."""
    ranges = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if str(program) in line]
    bounds = [int(part, 16) for fields in ranges for part in fields[0].split("-")]
    start, end = min(bounds), max(bounds)
    return [{"name": program.name, "path": str(program), "start": start, "end": end, "bias": start}]


def test_functions_of_a_running_process_are_named_and_wrappers_marked(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "program", PROGRAM, "-O1", "-g", "-pie", "-fPIE", "-fno-optimize-sibling-calls")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        returns, inside, ready = (running.stdout.readline().strip() for _ in range(3))
        assert ready == "ready"
        instructions = [int(returns, 16), int(inside, 16) + 1, 1, 0]
        done = names({"modules": modules_of(running.pid, program), "instructions": instructions})
        running.communicate("\n")
    assert done.status == 0, done.stderr
    caller, wrapper, nowhere, unknown = json.loads(done.stdout)["names"]
    assert [frame["function"] for frame in caller][0] == "calling_function"
    assert caller[0]["module"] == "program"
    assert "wrapper" not in caller[0]
    assert wrapper[0]["function"] == "my_alloc"
    assert wrapper[0]["wrapper"] is True
    assert "function" not in nowhere[0]
    assert unknown == [{}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "offset"),
        ("[]", "modules"),
        ('{"modules": [], "instructions": 3}', "modules"),
        ('{"modules": [{"name": "a"}], "instructions": []}', "lacks"),
        ('{"modules": [], "instructions": ["x"]}', "is not a number"),
    ],
)
def test_an_invalid_request_is_refused_in_one_line(text: str, says: str) -> None:
    done = names(None, text=text)
    assert done.status == 1
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
