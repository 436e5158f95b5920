"""Runs that tell how true a replay is: each program live on every allocator, recorded once on the C library's, and its
replays. What they are compared by: prediction.py; what comes of it: certificate.py.
"""

import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.fidelity import live, prediction
from heaptape.measure import capture, machine, recipes, replay
from heaptape.measure.recipes import Recipe
from heaptape.measure.registry import Choice, sha256_of
from heaptape.measure.rounds import Settings

SCHEMA = 1
MEMORY_REPEATS = 2
POINTS = 120  # of each time line that is kept
RUN_LIMIT_S = 600
BASELINE = "glibc"


def verify(
    recipe: Recipe,
    choices: Sequence[Choice],
    repeats: int,
    home: Home,
    cache: Path,
    tell: Callable[[str], None] = lambda text: None,
    touch: str = "recorded",
    lived: list[dict] | None = None,
    quick: bool = False,
    live_only: bool = False,
) -> dict:
    """All runs of one program and the predictions made of them: the content of a raw results file.

    `repeats`: of live runs and replays whose processor time counts; memory is measured in runs of its own,
    MEMORY_REPEATS of them, as watching it closely costs the program time. `quick`: in the same runs. An
    allocator whose live run or replay fails has the reason in "failures", and no figures. `lived`: live runs of an
    earlier result, to be used again; `live_only`: make only these. Raises HeaptapeError where
    the program can't run here, or fails on the C library's own allocator.
    """
    missing = recipe.missing()
    if missing:
        raise HeaptapeError(f"{recipe.name}: {missing}")
    began = time.time()
    prepared = recipes.prepare(recipe, cache)
    with recipes.scratch_directory() as scratch:
        place = live.Place(prepared, scratch, home)
        failures: dict[str, str] = {}
        if lived is None:
            kinds = {"memory": repeats} if quick else {"memory": MEMORY_REPEATS, "time": repeats}
            lived, failures = _live(recipe, place, choices, kinds, tell)
        known = {run["allocator"] for run in lived}
        if BASELINE not in known:
            raise HeaptapeError(next(iter(failures.values()), f"{recipe.name}: no live run"))
        if live_only:
            return _about(recipe, began, repeats, touch) | {"live": lived, "failures": failures}
        tell("recording")
        tape = scratch / f"{recipe.name}.tape"
        capture.capture(recipe, tape, home, ("--preload", live.c_library()), cache=cache)
        workload, about = _compile(tape, home)
        tell("replaying")
        settings = Settings(repeats=repeats, passes=("memory", "bare"), touch=touch, timeout_s=RUN_LIMIT_S)
        kept = [choice for choice in choices if choice.label in known and choice.label not in failures]
        results = replay.replay(workload, about, kept, settings, home)
        predicted = calibrated(_predict(tape, workload, results, lived, failures), results["runs"], lived)
    data = _about(recipe, began, repeats, touch)
    data["app"] |= {"threads": about["threads"], "ops": about["ops"]}
    return data | {
        "heaptape": results["heaptape"],
        "allocators": results["allocators"],
        "live": lived,
        "replays": [_replay_row(run) for run in results["runs"] if "error" not in run],
        "predicted": predicted,
        "failures": failures,
    }


def _about(recipe: Recipe, began: float, repeats: int, touch: str) -> dict:
    return {
        "schema": SCHEMA,
        "kind": "fidelity",
        "created_unix_s": round(began),
        "elapsed_s": round(time.time() - began, 1),
        "machine": machine.describe(),
        "app": {
            "name": recipe.name,
            "summary": recipe.summary,
            "set": recipe.set,
            "deterministic": recipe.deterministic,
            "recipe_sha256": sha256_of(recipe.path),
            "program_version": _version(recipe),
        },
        "settings": {"repeats": repeats, "touch": touch},
        "replays": [],
        "predicted": {},
    }


def not_verified(recipe: Recipe, why: str) -> dict:
    """The content of a raw results file of a program that could not be verified: an honest row."""
    return _about(recipe, time.time(), 0, "") | {"live": [], "failures": {"all": why}}


def _live(
    recipe: Recipe,
    place: live.Place,
    choices: Sequence[Choice],
    kinds: Mapping[str, int],
    tell: Callable[[str], None],
) -> tuple[list[dict], dict[str, str]]:
    """Every allocator once in each round, in random order. `kinds`: how many rounds of which kind."""
    runs: list[dict] = []
    failures: dict[str, str] = {}
    shuffler = random.Random(0)
    for kind, count in kinds.items():
        for number in range(count):
            order = [choice for choice in choices if choice.label not in failures]
            shuffler.shuffle(order)
            for choice in order:
                tell(f"live, {kind}, {number + 1} of {count}, {choice.label}")
                try:
                    figures = live.observe(recipe, place, choice, kind == "memory")
                except HeaptapeError as error:
                    failures[choice.label] = f"live: {error}"
                    continue
                if kind == "memory":
                    figures["timeline"] = _thin(figures["timeline"])
                runs.append({"allocator": choice.label, "kind": kind, "repeat": number} | figures)
    return runs, failures


def _thin(timeline: list) -> list:
    rows = np.array(timeline, dtype=float).reshape(-1, 4)
    return prediction.thinned(rows[:, 0], rows[:, 2], POINTS)


def _compile(tape: Path, home: Home) -> tuple[Path, dict]:
    workload = replay.prepare(str(tape), home, tape.parent)
    return workload, replay.describe_workload(workload, tape.stem)


def _replay_row(run: dict) -> dict:
    kept = (
        "cpu_ns", "engine_cycles_per_op", "cycles_hz", "rss_anon_peak_bytes", "rss_anon_mean_bytes",
        "vm_size_peak_bytes", "page_faults", "syscalls", "peaks", "rss_anon_start_bytes",
    )  # fmt: skip
    about = {"allocator": _label(run), "pass": run["pass"], "order": run["order"], "repeat": run["repeat"]}
    return about | {key: run[key] for key in kept if key in run}


def _predict(
    tape: Path, workload: Path, results: dict, lived: Sequence[dict], failures: dict[str, str]
) -> dict[str, dict]:
    """label -> predicted figures, from each allocator's memory replays (their mean where they differ)."""
    from heaptape.formats.tape_format import open_trace
    from heaptape.formats.tape_times import times_ns
    from heaptape.formats.workload_format import read_workload

    memory: dict[str, list[dict]] = {}
    for run in results["runs"]:
        label = _label(run)
        if "error" in run:
            failures[label] = f"replay, {run['pass']}: {run['error']}"
        elif run["pass"] == "memory":
            memory.setdefault(label, []).append(run)
    if BASELINE not in memory:
        raise HeaptapeError(f"{tape.stem}: {failures.get(BASELINE, 'no replay on the recording allocator')}")
    line = read_workload(workload).timeline()
    clock = line["time_ns"].to_numpy(float), line["position"].to_numpy(float)
    with open_trace(tape) as trace:
        samples = trace.samples()
        times = times_ns(trace, samples["stamp"].to_numpy(np.uint64)).astype(float)
    rss = samples["rss_anon_bytes"].to_numpy(float)
    vm = samples["vm_size_bytes"].to_numpy(float)
    base = prediction.replayed(memory[BASELINE][0])
    cpu = (samples["user_ns"] + samples["system_ns"]).to_numpy(float)
    own = prediction.own_part(times, cpu, rss, vm, clock, base)
    own, added = _without_recorder(own, base, lived)
    out = {}
    for label, runs in memory.items():
        if label in failures:
            continue
        found = [prediction.predict(own, prediction.replayed(run)) for run in runs]
        out[label] = {
            "rss_anon_peak_bytes": round(np.mean([one.rss_anon_peak_bytes for one in found])),
            "rss_anon_mean_bytes": round(np.mean([one.rss_anon_mean_bytes for one in found])),
            "rss_anon_wall_mean_bytes": round(np.mean([one.rss_anon_wall_mean_bytes for one in found])),
            "vm_size_peak_bytes": round(np.mean([one.vm_size_peak_bytes for one in found])),
            "own_at_peak_bytes": round(np.mean([one.peak_own_bytes for one in found])),
            "own_mean_bytes": round(prediction.mean_over_time(own.cpu_ns, own.rss_anon_difference_bytes)),
            "recorder_bytes": round(added),
            "timeline": prediction.thinned(found[0].time_ns, found[0].rss_anon_bytes, POINTS),
        }
    return out


def calibrated(predicted: Mapping[str, dict], runs: Sequence[dict], lived: Sequence[dict]) -> dict[str, dict]:
    """Predicted figures whose own part is one number: what the live run on the recording's own allocator had above that
    allocator's replay, at the peak of each, and in the mean. On that allocator they are the live ones by construction.

    The own part as a time line stays in the drawn time lines only. As a figure it was worse: where a program writes to
    its blocks later than a replay does, it moves with the blocks, and at the peak of another allocator it has not the
    value that it has at this one's (sqlite3 on the reference allocator: +6.4 % against 0.0; tcmalloc: +2.7, 0.0).
    """
    bare = [run for run in lived if run["allocator"] == BASELINE and run["kind"] == "memory"]
    out = {label: dict(figures) for label, figures in predicted.items()}
    for key in ("rss_anon_peak_bytes", "vm_size_peak_bytes"):
        replayed: dict[str, list[float]] = {}
        for run in runs:
            if run["pass"] == "memory" and key in run:
                replayed.setdefault(_label(run), []).append(run[key])
        own = _median(bare, key) - float(np.mean(replayed[BASELINE]))
        for label, figures in out.items():
            figures[key] = round(float(np.mean(replayed[label])) + own)
            if key == "rss_anon_peak_bytes":
                figures["own_at_peak_bytes"] = round(own)
    for key in ("rss_anon_mean_bytes", "rss_anon_wall_mean_bytes"):
        if any(key not in run for run in bare) or not all(key in figures for figures in out.values()):
            continue
        shift = _median(bare, key) - predicted[BASELINE][key]
        for figures in out.values():
            figures[key] = round(figures[key] + shift)
            if key == "rss_anon_mean_bytes":
                figures["own_mean_bytes"] = round(figures["own_mean_bytes"] + shift)
    return out


def _median(runs: Sequence[dict], key: str) -> float:
    return float(np.median([run[key] for run in runs]))


def _label(run: dict) -> str:
    """Of a run of a result, or of a row kept of one."""
    return run["allocator"] if run.get("variant", "default") == "default" else f"{run['allocator']}:{run['variant']}"


def _without_recorder(
    own: prediction.Own, base: prediction.Replayed, lived: Sequence[dict]
) -> tuple[prediction.Own, float]:
    """The own part less what recording added: the difference of the peaks, recorded and bare, on the recording's own
    allocator. No live run on another allocator is looked at.
    """
    bare = [run for run in lived if run["allocator"] == BASELINE and run["kind"] == "memory"]
    recorded = prediction.predict(own, base)
    added = recorded.rss_anon_peak_bytes - float(np.median([run["rss_anon_peak_bytes"] for run in bare]))
    added_vm = recorded.vm_size_peak_bytes - float(np.median([run["vm_size_peak_bytes"] for run in bare]))
    less = replace(
        own,
        rss_anon_bytes=own.rss_anon_bytes - added,
        vm_size_bytes=own.vm_size_bytes - added_vm,
        rss_anon_difference_bytes=own.rss_anon_difference_bytes - added,
    )
    return less, added


def _version(recipe: Recipe) -> str:
    """The Debian package's version of the program that is run; empty where it is of none."""
    program = shutil.which(recipe.command[0])
    if not program:
        return ""
    real = str(Path(program).resolve())
    for path in (real, real.removeprefix("/usr")):
        owner = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
        if owner.returncode == 0:
            package = owner.stdout.partition(":")[0]
            told = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
            return f"{package} {told.stdout}" if told.returncode == 0 else ""
    return ""


def read_results(paths: Sequence[Path]) -> list[dict]:
    """Raw results files (.json or .json.zst) by app name. Raises HeaptapeError at one that is none."""
    found = [_read(path) for path in paths]
    return sorted(found, key=lambda one: one["app"]["name"])


def write_results(data: dict, path: Path) -> None:
    """Writes one raw results file; compressed if its name ends with .zst."""
    text = json.dumps(data, separators=(",", ":")).encode()
    if path.suffix == ".zst":
        import zstandard

        text = zstandard.ZstdCompressor(level=19).compress(text)
    path.write_bytes(text)


LIMIT_BYTES = 64 << 20


def _read(path: Path) -> dict:
    try:
        text = path.read_bytes()
        if path.suffix == ".zst":
            import zstandard

            text = zstandard.ZstdDecompressor().decompress(text, max_output_size=LIMIT_BYTES)
        data = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise HeaptapeError(f"{path}: {error}") from None
    except Exception as error:  # zstandard has an exception of its own
        raise HeaptapeError(f"{path}: not a sound zstd frame: {error}") from None
    _check(path, data)
    return data


def _check(path: Path, data: object) -> None:
    def need(good: bool, what: str) -> None:
        if not good:
            raise HeaptapeError(f"{path}: not a result of verify-fidelity: {what}")

    need(isinstance(data, dict) and data.get("kind") == "fidelity", "no kind")
    assert isinstance(data, dict)
    need(data.get("schema") == SCHEMA, f"schema is not {SCHEMA}")
    for key, kind in (("app", dict), ("live", list), ("replays", list), ("predicted", dict), ("failures", dict)):
        need(isinstance(data.get(key), kind), f"{key} is missing or of the wrong type")
    need(isinstance(data["app"].get("name"), str), "app has no name")
    for number, run in enumerate(data["live"]):
        good = isinstance(run, dict) and isinstance(run.get("allocator"), str)
        need(good and run.get("kind") in ("memory", "time"), f"live run {number}")
        figure = "cpu_ns" if run["kind"] == "time" else "rss_anon_peak_bytes"
        need(_is_amount(run.get(figure)), f"live run {number}: {figure}")
    for label, one in data["predicted"].items():
        keys = ("rss_anon_peak_bytes", "own_at_peak_bytes")
        need(isinstance(one, dict) and all(_is_amount(one.get(key)) for key in keys), f"predicted, {label}")


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) < 1e30
