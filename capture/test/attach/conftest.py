# SPDX-License-Identifier: MIT
"""Workers of all kinds: `worker` uses the C library's malloc, `any_worker` also an allocator in its executable."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capture.test.attach.attached import SOURCES, Worker, compile_worker, text, workers

PREFIXED = ("-DPREFIX=je_", "-Dmalloc=je_malloc", "-Dfree=je_free")
KINDS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "own malloc": ("-pie", "-fPIE"),
    "own malloc at a fixed address": ("-no-pie", "-fno-pie"),
    "with a prefix": PREFIXED,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == SOURCES and os.uname().machine != "x86_64":
            item.add_marker(pytest.mark.skip(reason="attaching is for x86-64 only"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """The worker of a kind, and its plugin."""
    made: dict[str, tuple[Path, Path]] = {}

    def get(kind: str) -> tuple[Path, Path]:
        if kind not in made:
            more = (*KINDS[kind], *([] if kind == "plain" else [SOURCES / "own_malloc.c"]))
            made[kind] = compile_worker(tmp_path_factory.mktemp("attach"), *more)
        return made[kind]

    return get


@pytest.fixture
def worker(programs: Callable[[str], tuple[Path, Path]]) -> Iterator[Callable[..., Worker]]:
    with workers(programs("plain")) as begin:
        yield begin


@pytest.fixture(params=["plain", "own malloc", *(pytest.param(kind, marks=pytest.mark.long) for kind in [*KINDS][2:])])
def any_worker(
    request: pytest.FixtureRequest, programs: Callable[[str], tuple[Path, Path]]
) -> Iterator[Callable[..., Worker]]:
    with workers(programs(request.param)) as begin:

        def begin_any(threads: int, *options: str) -> Worker:
            program = begin(threads, *options)
            program.code = text(program.pid) if request.param != "plain" else []
            return program

        yield begin_any
