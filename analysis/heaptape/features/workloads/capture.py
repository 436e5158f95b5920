# SPDX-License-Identifier: MIT
"""`heaptape workloads capture`: prepares a recipe, runs it under the recorder, and keeps the trace of its process."""

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import convert_json, scratch_folder
from heaptape.run import recipes
from heaptape.run.recipes import Recipe

LAST_LINES = 5


@dataclass(frozen=True)
class Trace:
    """One recorded process: its trace, and the output of `heaptape info --json` for it."""

    path: Path
    about: dict

    @property
    def program(self) -> str:
        """Base name of its executable; empty if the trace does not have it."""
        return self.about["info"].get("program", "")


@dataclass(frozen=True)
class Captured:
    """A recording that ended as it should. `chosen`: the trace of the recipe's process; `others`: traces of the
    processes that it started or was started by (their files are removed unless `keep_all`). `wall_s`: the recorded
    command from start to end. `versions`: of the recipe's packages, by name.
    """

    recipe: Recipe
    chosen: Trace
    others: tuple[Trace, ...]
    wall_s: float
    versions: dict[str, str]

    def row(self) -> dict:
        """The figures, for JSON and tables. Bytes, seconds."""
        about, witness = self.chosen.about, self.chosen.about["witness"]
        return {
            "name": self.recipe.name,
            "program": self.chosen.program,
            "tape": str(self.chosen.path),
            "events": about["events"],
            "threads": about["threads"],
            "file_bytes": about["file_bytes"],
            "bytes_per_event": about["bytes_per_event"],
            "peak_live_bytes": about["peak_live_bytes"],
            "rss_anon_peak_bytes": about.get("recorded", {}).get("rss_anon_peak_bytes"),
            "dropped": about["dropped"],
            "wall_s": round(self.wall_s, 2),
            "check": witness,
            "verdict": verdict(about),
            "other_traces": len(self.others),
            "other_events": sum(trace.about["events"] for trace in self.others),
            "versions": self.versions,
            "known": self.recipe.known,
        }


def capture(
    recipe: Recipe,
    output: Path,
    home: Home,
    options: Sequence[str] = (),
    keep_all: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    cache: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Captured:
    """Records `recipe` into `output`. `options`: further options of `heaptape record`. `keep_all`: the other processes'
    traces stay beside it, as OUTPUT's stem, PID and .tape. `tell` receives lines on progress. `cache`: where prepared
    input is kept (default `recipes.cache_directory`). `environment`: added to that of the recorder and the program.

    Raises HeaptapeError if the recipe can't run here, fails, does not end as it should, or its process is not among
    the recorded ones; no file is left then.
    """
    reason = recipe.missing()
    if reason:
        raise HeaptapeError(f"{recipe.name} can't run here: {reason}")
    record = home.program("record")
    tell(f"preparing {recipe.name}")
    prepared = recipes.prepare(recipe, cache or recipes.cache_directory())
    tell(f"recording {recipe.name}: {recipe.summary}")
    with (
        recipes.scratch_directory() as scratch,
        scratch_folder(output.resolve().parent, ".heaptape-") as traces,  # so that the trace need not be copied
    ):
        log = scratch / "output"
        # All processes: the recipe's need not be the busiest.
        wrapper = [str(record), "--quiet", "--all-processes", "-o", str(traces / "first.tape"), *options, "--"]
        try:
            done = recipes.run(recipe, prepared, scratch / recipe.name, wrapper, environment, log)
        except HeaptapeError as error:
            raise HeaptapeError(f"{error}{_last_words(log)}") from None
        if not recipe.ended_well(done.status):
            raise HeaptapeError(f"{recipe.name}: ended with status {done.status}{_last_words(log)}")
        tell(f"checking {recipe.name}")
        found = [Trace(path, convert_json(home, "info", str(path))) for path in sorted(traces.glob("*.tape"))]
        chosen = choose(recipe, found)
        others = tuple(trace for trace in found if trace is not chosen)
        for trace in others if keep_all else ():
            trace.path.replace(output.with_name(f"{output.stem}.{_pid_part(trace)}.tape"))
        chosen.path.replace(output)
    return Captured(recipe, Trace(output, chosen.about), others, done.wall_s, versions(recipe.packages))


def choose(recipe: Recipe, traces: Sequence[Trace]) -> Trace:
    """The trace of the recipe's process: by its program's name, and of several the one with most events."""
    meant = [trace for trace in traces if recipe.is_meant(trace.program)]
    if not meant:
        seen = ", ".join(sorted({trace.program or "?" for trace in traces})) or "nothing"
        raise HeaptapeError(f"{recipe.name}: {recipe.process} was not among the recorded programs ({seen})")
    return max(meant, key=lambda trace: trace.about["events"])


def verdict(about: dict) -> str:
    witness = about["witness"]
    doubts = [
        f"{witness[key]:,} {what}"
        for key, what in (
            ("dropped", "dropped"),
            ("unseen_frees", "frees of its parent's blocks" if witness.get("lacks_start") else "unseen frees"),
            ("double_frees", "double frees"),
            ("overlapping_acquires", "overlaps"),
            ("inversions_repaired", "inversions"),
        )
        if witness.get(key)
    ]
    words = "legal" if about["ok"] else "not legal"
    if witness.get("truncated"):
        doubts.append("truncated")
    if witness.get("lacks_calls"):
        doubts.append("lacks calls")
    return ", ".join([words, *doubts])


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The installed version of each Debian package; packages that are not installed are left out."""
    if not packages or not shutil.which("dpkg-query"):
        return {}
    command = ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages]
    output = subprocess.run(command, capture_output=True, errors="replace").stdout
    return dict(line.split(" ", 1) for line in output.splitlines() if not line.endswith(" "))


def _pid_part(trace: Trace) -> str:
    """The process's number for first.tape; for first.PID.N.tape the part that the recorder inserted."""
    middle = trace.path.name.split(".")[1:-1]
    return ".".join(middle) or str(trace.about["info"].get("pid", 0))


def _last_words(log: Path) -> str:
    """The program's last lines of output."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(f"\n  {line[:300]}" for line in lines[-LAST_LINES:])
