# SPDX-License-Identifier: MIT
"""Raw results files of tests.bench.fidelity: what they hold, reading, writing."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import zstandard
from heaptape.allocators.registry import Choice, package_versions, sha256_of
from heaptape.common.errors import HeaptapeError
from heaptape.common.output import write_bytes
from heaptape.results.structs import label
from heaptape.run import machine
from heaptape.run.recipes import Recipe

from tests.bench.fidelity.live_rounds import BASELINE

SCHEMA = 1
LIMIT_BYTES = 64 << 20
RUN_LIMIT_S = 600


def read_results(paths: Sequence[Path]) -> list[dict]:
    """Raw results files (.json.zst), sorted by app name."""
    texts = [zstandard.ZstdDecompressor().decompress(path.read_bytes(), LIMIT_BYTES) for path in paths]
    return sorted(map(json.loads, texts), key=lambda one: one["app"]["name"])


def write_results(data: dict, path: Path) -> None:
    """Writes one raw results file, atomically."""
    text = json.dumps(data, separators=(",", ":")).encode()
    write_bytes(str(path), zstandard.ZstdCompressor(level=19).compress(text))


def about_run(recipe: Recipe, began: float, repeats: int, kind: str = "fidelity") -> dict:
    of_recipe = {key: getattr(recipe, key) for key in ("name", "summary", "set", "deterministic")}
    app = of_recipe | {"recipe_sha256": sha256_of(recipe.path), "program_version": _version(recipe)}
    when = {"created_unix_s": round(began), "elapsed_s": round(time.time() - began, 1), "machine": machine.describe()}
    runs: dict = {"settings": {"repeats": repeats}, "replays": [], "predicted": {}}
    return {"schema": SCHEMA, "kind": kind, **when, "app": app, **runs}


def _version(recipe: Recipe) -> str:
    """The version of the Debian package that the program is from; empty where it is from none."""
    program = shutil.which(recipe.command[0])
    if not program:
        return ""
    real = Path(program).resolve()
    return package_versions((real,)).get(real, "")


def with_runs(
    about: dict, results: dict, lived: Sequence[dict], failures: Mapping[str, str], kept: Sequence[str]
) -> dict:
    """A raw results file's content. `about`: from `about_run`; `results`: the replays'; `kept`: which keys are kept of
    each replay that did not fail.
    """
    rows = [
        {"allocator": label_of(run)} | {key: run[key] for key in kept if key in run}
        for run in results["runs"]
        if "error" not in run
    ]
    app = about["app"] | {key: results["workload"][key] for key in ("threads", "ops")}
    made = {key: results[key] for key in ("heaptape", "allocators")}
    return about | made | {"app": app, "live": lived, "replays": rows, "failures": failures}


def not_verified(recipe: Recipe, why: str, kind: str) -> dict:
    """The content of a raw results file of a program that could not be verified."""
    nothing: dict = {"live": [], "failures": {"all": why}} | ({"looks": [], "sittings": []} if kind == "timed" else {})
    return about_run(recipe, time.time(), 0, kind) | nothing


def that_ran(
    recipe: Recipe, choices: Sequence[Choice], lived: Sequence[dict], failures: Mapping[str, str]
) -> list[Choice]:
    """The choices that have live runs and no failure. Raises HeaptapeError where the C library's has no live run."""
    known = {run["allocator"] for run in lived}
    if BASELINE not in known:
        raise HeaptapeError(next(iter(failures.values()), f"{recipe.name}: no live run"))
    return [choice for choice in choices if choice.label in known and choice.label not in failures]


def replay_failures(results: dict) -> dict[str, str]:
    """label -> why its last failed replay failed."""
    return {label_of(run): f"replay, {run['pass']}: {run['error']}" for run in results["runs"] if "error" in run}


def label_of(run: dict) -> str:
    return label(run["allocator"], run.get("variant"))
