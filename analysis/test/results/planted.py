# SPDX-License-Identifier: MIT
"""A measurement and results made up for tests of the model, with figures that are easy to add."""

import json
from pathlib import Path

from heaptape.results.schema import Results
from heaptape.run.machine import describe
from planted_runs import file_of, runs_of


def quantiles(value: float, upper: float | None = None) -> dict:
    """Quarter and median `value`, three quarters `upper`."""
    return {"least": value, "quarter": value, "median": value, "three_quarters": upper or value, "samples": 3}


def chain(dependent: float, independent: float) -> dict:
    return {
        "lines": 8,
        "huge_pages": True,
        "dependent_ns": quantiles(dependent),
        "independent_ns": quantiles(independent),
    }


def working_set(size: int, stream: float, dependent: float, independent: float) -> dict:
    """In OS pages just used, a load takes as long as anywhere."""
    anywhere = chain(dependent, independent)
    near = {f"near_{key}": value for key, value in anywhere.items() if key.endswith("_ns")}
    return {"bytes": size, "stream_ns": quantiles(stream)} | anywhere | near


def measurement() -> dict:
    """Instructions 0.1 to 0.4 ns (of an allocator 0.2 to 0.4); misses that hit 1 MiB 1 to 4 ns, 32 MiB 10 to 40,
    memory 20 to 180; in order of address 0.5 to 1, 5 to 10, 10 to 20; TLB misses 2 to 8 and 5 to 20; a fault 1,000
    to 1,200; mmap 500, munmap 700, brk 900.
    """
    sets = {16 << 10: (1, 0.5), 128 << 10: (5, 1.5), 512 << 10: (5, 1.5), 4 << 20: (41, 10.5), 16 << 20: (41, 10.5)}
    sets |= {128 << 20: (181, 20.5)}
    streams = dict(zip(sets, (0.4, 0.9, 0.9, 5.4, 5.4, 10.4)))
    pages = {314: (9, 2.5), 3072: (21, 5.5)}
    return {
        "schema": 6,
        "cpu": "made up",
        "working_sets": [working_set(size, streams[size], *ns) for size, ns in sets.items()],
        "os_page_sets": [
            {"os_pages": count, "one_per_os_page": chain(*ns), "side_by_side": chain(1, 0.5)}
            for count, ns in pages.items()
        ],
        "code": {
            "cycle_ns": quantiles(0.25),
            "arithmetic": {"instructions_per_iteration": 10, "instruction_ns": quantiles(0.1)},
            "interpreter": {"instructions_per_iteration": 10, "instruction_ns": quantiles(0.4)},
            "allocator": {"instructions_per_iteration": 10, "instruction_ns": quantiles(0.2)},
        },
        "strings": {
            "fill": {"line_ns": quantiles(8), "byte_ns": quantiles(0.02)},
            "copy": {"line_ns": quantiles(10), "byte_ns": quantiles(0.04)},
        },
        "kernel": {
            "first_touch_ns": quantiles(1000),
            "unmapped_page_ns": quantiles(200),
            "getppid_ns": quantiles(100),
            "mmap_ns": quantiles(500),
            "munmap_ns": quantiles(700),
            "mremap_ns": quantiles(800),
            "madvise_ns": quantiles(600),
            "brk_ns": quantiles(900),
        },
    }


def keep_measurement(folder: Path) -> None:
    """Keeps it as this machine's, if $XDG_CACHE_HOME is `folder`: results that depend on costs are then the same at any
    load.
    """
    place = folder / "heaptape" / "machine.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(measurement() | {"cpu": describe()["cpu"]}))


def measurement_with_near() -> dict:
    """The same, with chains in OS pages just used: half of what they take elsewhere."""
    measured = measurement()
    for row in measured["working_sets"]:
        for key in ("dependent_ns", "independent_ns"):
            row[f"near_{key}"] = quantiles(row[key]["median"] / 2)
    return measured


def misses(
    program: int = 1_000_000,
    allocator: int = 100_000,
    caches: tuple[int, int, int] = (3000, 2000, 1000),
    tlbs: tuple[int, int] = (400, 300),
    faults: int = 0,
    sequential: tuple[int, int, int] | None = None,
) -> dict:
    """ "misses" of a run; of an earlier version unless `sequential` is given."""
    sizes = ((32 << 10, 8), (1 << 20, 16), (32 << 20, 16))
    return {
        "program_instructions": program,
        "allocator_instructions": allocator,
        "data_accesses": 300_000,
        "page_faults": faults,
        "syscalls": 0,
        "caches": [
            {"bytes": size, "ways": ways, "misses": count}
            | ({"sequential_misses": sequential[level]} if sequential else {})
            for level, ((size, ways), count) in enumerate(zip(sizes, caches))
        ],
        "tlbs": [{"entries": 64, "ways": 64, "misses": tlbs[0]}, {"entries": 1536, "ways": 12, "misses": tlbs[1]}],
        "lost_accesses": 0,
        "filter_bytes": 4096,
    }


def of_bursts(
    first_lines: int = 0,
    first_pages: int = 0,
    unsure: int = 0,
    first_misses: tuple[int, int, int] = (0, 0, 0),
    first_tlb: tuple[int, int] = (0, 0),
    outside: int | None = 9_000_000,
    **how: object,
) -> dict:
    """Misses of two bursts, a tenth of the program's instructions."""
    made = misses(**how)  # type: ignore[arg-type]
    for level, first in zip((*made["caches"], *made["tlbs"]), (*first_misses, *first_tlb), strict=True):
        level["first_misses"] = first
    counts = {"first_lines": first_lines, "first_pages": first_pages, "unsure_page_faults": unsure}
    more = {"outside_program_instructions": outside, "outside_allocator_instructions": 5}
    return made | {"bursts": {"count": 2} | counts | more}


def results(runs: dict[str, list[dict]], extra_runs: tuple[dict, ...] = (), with_penalties: bool = True) -> Results:
    """Results with these "misses" per allocator, one for each repetition."""
    file = file_of([*runs_of("misses", "misses", runs), *extra_runs], "planted", ops=1000)
    if with_penalties:
        file.data["penalties"] = measurement()
    return file
