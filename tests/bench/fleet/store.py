# SPDX-License-Identifier: MIT
"""Cost of a store per cell: CPU time of putting, listing, reading and checking it, and of its figures as a frame;
bytes by pass. The cells are those of a given store, repeated under other repetition numbers.

    .venv/bin/python -m tests.bench.fleet.store STORE [--cells 4000]
"""

import argparse
import tempfile
import time
from collections.abc import Callable

import msgspec
from heaptape.fleet.store import Record, open_store, sealed


def cpu_ms(work: Callable[[], object], cells: int) -> float:
    """CPU time of this process per cell."""
    before = time.process_time()
    work()
    return 1000 * (time.process_time() - before) / cells


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--cells", type=int, default=4000)
    arguments = parser.parse_args()
    given = list(open_store(arguments.store).records())
    for pass_ in sorted({record.cell.pass_ for record in given}):
        sizes = [len(sealed(msgspec.to_builtins(record))) for record in given if record.cell.pass_ == pass_]
        print(f"{pass_}: {sum(sizes) / len(sizes):.0f} bytes a cell, mean of {len(sizes)}")
    with tempfile.TemporaryDirectory(prefix="heaptape.") as folder:
        store, number = open_store(f"{folder}/store", create=True), arguments.cells
        records = [_again(given[count % len(given)], count) for count in range(number)]
        print(f"put: {cpu_ms(lambda: [store.put_cell(record) for record in records], number):.3f} ms of CPU time")
        print(f"list: {cpu_ms(store.cell_keys, number):.4f} ms")
        print(f"read and check: {cpu_ms(lambda: list(store.records()), number):.3f} ms")
        print(f"results(): {cpu_ms(store.results, number):.3f} ms, reading included")
        frame = store.results()
        print(f"{len(frame) / number:.1f} rows and {frame.memory_usage().sum() / number:.0f} bytes of frame a cell")


def _again(record: Record, repetition: int) -> Record:
    return msgspec.structs.replace(record, cell=msgspec.structs.replace(record.cell, repetition=repetition))


if __name__ == "__main__":
    main()
