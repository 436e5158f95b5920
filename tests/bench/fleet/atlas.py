# SPDX-License-Identifier: MIT
"""The atlas of docs/atlas: records what is missing, replays it through `heaptape fleet`, and writes data and page.

    python -m tests.bench.fleet.atlas [-j N] [NAME[@VERSION][:SETTING] ...]

Names are further allocators (or other versions), installed first. Stopped, the same command continues: recordings and
the store are in OUT/atlas. On several machines: `heaptape fleet` on that store (docs/use/FLEET.md), then this again.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import CHECKOUT, Home
from heaptape.run import capture, live, recipes, registry
from heaptape.run.recipes import Recipe

from tests.bench.fidelity import counted
from tests.support import OUT

CORPUS, DOCS = CHECKOUT / "workloads" / "corpus", CHECKOUT / "docs" / "atlas"
FOLDER = OUT / "atlas"
INSTALLED = (
    "jemalloc@5", "mimalloc@3", "mimalloc@2", "google-tcmalloc", "snmalloc", "rpmalloc", "scudo", "hardened-malloc",
)  # fmt: skip
COLUMNS = (
    "glibc", *INSTALLED, "tcmalloc", "tbbmalloc", "glibc:trim-at-once", "glibc:one-arena", "jemalloc@5:decay-0",
    "mimalloc@3:purge-at-once", "mimalloc@3:no-thp", "tcmalloc:aggressive-decommit", "reference", "magazine", "bucket",
)  # fmt: skip
ACCESSES = ("--accesses", "--preload", str(live.c_library()))


def heaptape(*words: object) -> int:
    return subprocess.run([*Home(OUT).command(), *map(str, words)], check=False).returncode


def install(names: Sequence[str]) -> None:
    """What is not there yet. A failure is reported by the command, and stands in the atlas."""
    for base in dict.fromkeys(name.partition(":")[0] for name in names):
        try:
            registry.choose(base, registry.load(Home(OUT)))
        except HeaptapeError:
            heaptape("allocators", "install", base)


def available(names: Sequence[str]) -> list[str]:
    known, found = registry.load(Home(OUT)), []
    for name in names:
        try:
            registry.choose(name, known)
        except HeaptapeError:
            continue
        found.append(name)
    return found


def record(folder: Path) -> None:
    """Recipes that the corpus has no piece of, whole; short programs, with their data accesses, as NAME.short."""
    pieces, cache = {path.stem for path in CORPUS.iterdir()}, recipes.cache_directory()
    whole = [one for one in recipes.find() if one.name not in pieces]
    for recipe in whole:
        _record(recipe, folder / f"{recipe.name}.tape", (), cache)
    for recipe in recipes.find(counted.DIRECTORIES):
        _record(recipe, folder / f"{recipe.name}.short.tape", ACCESSES, cache / "counted")
    zipped = CORPUS / "android-systemui.zip"
    if not (folder / f"{zipped.stem}.tape").is_file():
        heaptape("convert", zipped, folder / f"{zipped.stem}.tape")


def _record(recipe: Recipe, path: Path, options: Sequence[str], cache: Path) -> None:
    if path.is_file():
        return
    try:
        capture.capture(recipe, path, Home(OUT), options, cache=cache)
    except HeaptapeError as error:
        print(f"left out: {error}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-j", "--jobs", type=int, default=0, help="cells at a time (default: as fit)")
    parser.add_argument("names", nargs="*", metavar="NAME[@VERSION][:SETTING]")
    arguments = parser.parse_args()
    began = time.monotonic()
    recordings, store = FOLDER / "recordings", FOLDER / "store"
    recordings.mkdir(parents=True, exist_ok=True)
    install([*INSTALLED, *arguments.names])
    record(recordings)
    columns = list(dict.fromkeys([*COLUMNS, *arguments.names]))
    tapes = [*sorted(CORPUS.glob("*.tape")), *sorted(recordings.glob("*.tape"))]
    chosen = [word for name in available(columns) for word in ("-a", name)]
    scheduler = f"local={arguments.jobs}" if arguments.jobs else "local"
    for passes, inputs in (("memory,instructions", tapes), ("misses", sorted(recordings.glob("*.short.tape")))):
        # Cells that fail are part of the atlas: some allocators don't run under Valgrind.
        heaptape(
            "fleet", "replay", *inputs, *chosen, "--passes", passes, "--store", store, "--scheduler", scheduler
        )  # fmt: skip
    failed = heaptape("fleet", "ingest", *tapes, "--store", store)
    listed = [word for name in columns for word in ("-a", name)]
    failed |= heaptape("fleet", "atlas", store, *listed, "-o", DOCS)
    print(f"{time.monotonic() - began:,.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
