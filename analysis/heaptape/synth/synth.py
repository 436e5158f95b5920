# SPDX-License-Identifier: MIT
"""A trace of events drawn from a profile, written by `heaptape-convert` from text."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.synth.distributions import Distributions, distributions
from heaptape.synth.events import events
from heaptape.synth.text import Lines

VERSION = 1
# Measured by `python -m tests.bench synth`: figure -> percent by which such workloads' figures may be off.
ERRORS = Path(__file__).with_name("errors.json")


@dataclass(frozen=True)
class Wish:
    """What to make. `ops`: approximate number; None: the profile's."""

    output: str
    seed: int
    ops: int | None = None


def read(path: str, text: bytes) -> Distributions:
    """The distributions of a profile's text. `path`: its name. Raises HeaptapeError if it is not a profile."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"offset {error.pos}: " if isinstance(error, json.JSONDecodeError) else ""
        raise HeaptapeError(f"{path}: {where}not a profile (no JSON)") from None
    return distributions(path, data)


def about(of: Distributions, wish: Wish) -> dict:
    """INFO's key `synthetic` (core/trace/FORMAT.md). Errors were measured with workloads as long as their profiles."""
    expected = json.loads(ERRORS.read_text())["expected"] if wish.ops in (None, of.ops) else {}
    profile = {"program": of.program, "ops": of.ops, "threads": of.threads}
    found = {"version": VERSION, "profile": profile, "seed": wish.seed, "lacks": list(of.lacks)}
    return found | ({"expected": expected} if expected else {})


def write(of: Distributions, path: str, wish: Wish, home: Home, tell: Callable[[float], None]) -> int:
    """Writes the trace atomically; returns the number of events. `tell`: called with the share that is done."""
    lines, ops = Lines(path, of.kinds.calls), wish.ops or of.ops
    command = [str(home.program("convert")), "convert", "--from", "text", "-", wish.output]
    done = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin
        try:
            process.stdin.write(lines.header(about(of, wish)))
            for part in events(of, ops, wish.seed):
                process.stdin.write(lines.text(part))
                done += len(part)
                tell(min(done / ops, 1.0))
            process.stdin.close()
        except BrokenPipeError:
            process.wait()
        except BaseException:
            process.kill()  # before its input ends, which would look complete
            raise
    if process.returncode != 0:
        raise HeaptapeError("")  # heaptape-convert has reported why
    return done
