# SPDX-License-Identifier: MIT
"""Installs candidates from the registries into a clean cache, and again without a network: prints per candidate how
long each took, whether both made the same library, and the result of verifying it. Exit 1 if one failed.

    .venv/bin/python -m tests.bench.allocators.zoo [--cache DIR] [NAME@VERSION]...
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from tests.support import HEAPTAPE, Result, run

CANDIDATES = (
    "mimalloc@2.0.9", "mimalloc@2.3.2", "mimalloc@3.3.2", "jemalloc@5.2.1", "jemalloc@5.3.1", "snmalloc@0.3.8",
    "snmalloc@0.7.6", "rpmalloc@1.4.1", "rpmalloc@1.4.3", "scudo@14", "scudo@19", "hardened-malloc@13.0.0",
    "hardened-malloc@16.0.2026071503", "google-tcmalloc@0.1.14", "musl@1.2.3",
)  # fmt: skip
LIMIT_S = 3600


def install(name: str, cache: Path, *options: str, offline: bool = False) -> tuple[Result, float]:
    """The command's result, and the seconds it took."""
    began = time.monotonic()
    alone = ["unshare", "--net", "--map-root-user"] if offline else []
    environment = {"XDG_CACHE_HOME": str(cache)}
    done = run(*alone, HEAPTAPE, "allocators", "install", name, *options, env=environment, timeout_s=LIMIT_S)
    return done, time.monotonic() - began


def record(name: str, cache: Path, folder: str = "heaptape/allocators") -> dict:
    """The record of its installation; empty if it was not installed."""
    file = cache / folder / name / "record.json"
    return json.loads(file.read_text()) if file.is_file() else {}


def row(name: str, cache: Path) -> tuple[str, bool]:
    """A line of the table, and whether both succeeded."""
    first, online_s = install(name, cache)
    before = record(name, cache)
    again, offline_s = install(name, cache, "--no-verify", "--into", str(cache / "offline"), offline=True)
    after = record(name, cache, "offline")
    fine = first.status == again.status == 0
    same = fine and before["library_sha256"] == after["library_sha256"]
    broken = [f"{one['workload']}: {one['broken']}" for one in before.get("verified") or () if one["broken"]]
    verdict = "; ".join(broken) or "keeps all" if fine else (first.stderr + again.stderr).strip()
    return f"| {name} | {online_s:.0f} | {offline_s:.0f} | {'yes' if same else 'no'} | {verdict} |", fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=CANDIDATES, metavar="NAME@VERSION")
    parser.add_argument("--cache", help="kept afterwards (default: a scratch folder); must be empty")
    arguments = parser.parse_args()
    cache = Path(arguments.cache or tempfile.mkdtemp(prefix="heaptape.")).absolute()
    if cache.exists() and any(cache.iterdir()):
        parser.error(f"{cache} is not empty")
    print("| candidate | installed, s | again without network, s | same library | rules of malloc |")
    print("|---|---:|---:|---|---|")
    outcomes = []
    try:
        for name in arguments.names:
            text, fine = row(name, cache)
            print(text, flush=True)
            outcomes.append(fine)
    finally:
        if not arguments.cache:
            shutil.rmtree(cache)
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
