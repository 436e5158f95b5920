# SPDX-License-Identifier: MIT
"""The atlas of docs/atlas: records what is missing, replays it through `heaptape fleet`, and writes data and page.

    python -m heaptape.features.fleet.test.make_atlas [-j N] [--every N] [NAME[@VERSION][:SETTING] ...]

Names are further allocators (or other versions), installed first. Stopped, the same command continues: recordings and
the store are in OUT/atlas. On several machines: `heaptape fleet` on that store (docs/use/FLEET.md), then this again.
--every N: a trial with each N-th recording, in OUT/atlas.trial, page included; it shows what all will take.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from heaptape.allocators import registry
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import CHECKOUT, Home
from heaptape.features.workloads import capture
from heaptape.run import live, recipes
from heaptape.run.recipes import Recipe

from tests.bench.fidelity import counted
from tests.support import OUT

CORPUS, DOCS = CHECKOUT / "workloads" / "corpus", CHECKOUT / "docs" / "atlas"
INSTALLED = (
    "jemalloc@5", "mimalloc@3", "mimalloc@2", "google-tcmalloc", "snmalloc", "rpmalloc", "scudo", "hardened-malloc",
)  # fmt: skip
COLUMNS = (
    "glibc", *INSTALLED, "tcmalloc", "tbbmalloc", "glibc:no-tcache", "glibc:trim-at-once", "glibc:one-arena",
    "jemalloc@5:background_thread", "jemalloc@5:decay-0", "mimalloc@3:purge-at-once", "mimalloc@3:no-thp",
    "tcmalloc:aggressive-decommit", "reference", "magazine", "bucket",
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


def recorded(folder: Path, every: int) -> list[Path]:
    """The corpus; recipes that it has no piece of, whole; short programs, with their data accesses, as NAME.short. Each
    `every`-th of them.
    """
    pieces, cache = sorted(CORPUS.glob("*.tape")), recipes.cache_directory()
    zipped, known = CORPUS / "android-systemui.zip", {path.stem for path in CORPUS.iterdir()}
    make: dict[Path, Callable[[Path], object]] = {
        folder / f"{zipped.stem}.tape": partial(heaptape, "convert", zipped),
        **{
            folder / f"{one.name}.tape": partial(_record, one, (), cache)
            for one in recipes.find()
            if one.name not in known
        },
        **{
            folder / f"{one.name}.short.tape": partial(_record, one, ACCESSES, cache / "counted")
            for one in recipes.find(counted.DIRECTORIES)
        },
    }
    chosen = [*pieces, *sorted(make)][::every]
    for path in chosen:
        if not path.is_file():
            make[path](path)
    return [path for path in chosen if path.is_file()]


def _record(recipe: Recipe, options: Sequence[str], cache: Path, path: Path) -> None:
    try:
        capture.capture(recipe, path, Home(OUT), options, cache=cache)
    except HeaptapeError as error:
        print(f"left out: {error}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-j", "--jobs", type=int, default=0, help="cells at a time (default: as fit)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th recording only, as a trial")
    parser.add_argument("names", nargs="*", metavar="NAME[@VERSION][:SETTING]")
    arguments = parser.parse_args()
    began = time.monotonic()
    trial = arguments.every > 1
    folder = OUT / ("atlas.trial" if trial else "atlas")
    recordings, store = folder / "recordings", folder / "store"
    recordings.mkdir(parents=True, exist_ok=True)
    install([*INSTALLED, *arguments.names])
    tapes = recorded(recordings, arguments.every)
    print(f"{time.monotonic() - began:,.0f} s: {len(tapes)} recordings")
    columns = list(dict.fromkeys([*COLUMNS, *arguments.names]))
    chosen = [word for name in available(columns) for word in ("-a", name)]
    short = [path for path in tapes if path.name.endswith(".short.tape")]
    for passes, inputs in (("memory,instructions", tapes), ("misses", short)):
        # Cells that fail are part of the atlas: some allocators don't run under Valgrind.
        heaptape(
            "fleet", "run", *inputs, *chosen, "--passes", passes, "--store", store, "-j", arguments.jobs
        )  # fmt: skip
    listed = [word for name in columns for word in ("-a", name)]
    failed = heaptape("fleet", "atlas", store, *listed, "-o", folder / "page" if trial else DOCS)
    print(f"{time.monotonic() - began:,.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
