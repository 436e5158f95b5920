# SPDX-License-Identifier: MIT
"""All that may happen to a fleet, at random and in one run: workers and the scheduler are killed, the store refuses
requests, its cells are cut and flipped, or it is on a disk that is full from time to time. At the end the figures are
those of an undisturbed run, and each event was reported. All tests of this file are long.
"""

import contextlib
import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from heaptape.features.fleet.cluster import make_keys
from heaptape.features.fleet.store import open_store
from heaptape.features.fleet.test.fleets import (
    ALLOCATORS,
    cell_files,
    fill,
    make_workloads,
    plan,
    same_figures,
    started,
)
from heaptape.features.fleet.test.object_stores import serving

from tests.support import call_heaptape, small_disk

NUMBER, WORKERS = 5, 2
PASSES = "memory,verify"
CELLS = NUMBER * len(ALLOCATORS) * len(PASSES.split(","))
EVENTS = ("worker", "scheduler", "refused", "denied", "cut", "flipped")

HANG_S = 400  # bounds a hang, and is no claim

pytestmark = pytest.mark.long


class Fleet:
    """A scheduler, workers and the command, each started again where it was killed."""

    def __init__(self, service, store, folder, inputs, ends):
        self.service, self.store, self.opened = service, store, open_store(store)
        self._folder, self._ends, self.told = folder, ends, ""
        self._keys = ("--keys", folder / "keys")
        make_keys(folder / "keys")
        self._scheduler = self._start("scheduler", "tls://127.0.0.1:0", *self._keys, stderr=subprocess.DEVNULL)
        self._address = self._scheduler.stdout.readline().strip()
        self._workers = [self._worker() for _ in range(WORKERS)]
        chosen = [word for name in ALLOCATORS for word in ("-a", name)]
        options = ("--passes", PASSES, "--store", store, "--scheduler", self._address, *self._keys, "--retries", "50")
        self._command = ("replay", *inputs, *chosen, *options)

    def _start(self, *arguments, **options):
        return self._ends.enter_context(started(*arguments, **options))

    def _worker(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": (self._folder / "workers").open("a")}
        return self._start("worker", self._address, "--store", self.store, "--threads", "1", *self._keys, **quiet)

    @contextlib.contextmanager
    def command(self):
        """Runs the command within the context, and to its end."""
        with (self._folder / "command").open("w+") as errors:
            process = self._start(*self._command, stdout=subprocess.DEVNULL, stderr=errors)
            yield process
            process.wait(timeout=HANG_S)
            errors.seek(0)
            self.told += errors.read()

    def happens(self, event, chance):
        """Causes one of EVENTS."""
        if event == "worker":
            number = chance.randrange(WORKERS)
            self._workers[number].kill()
            self._workers[number] = self._worker()
        elif event == "scheduler":
            self._scheduler.kill()
            self._scheduler.wait()
            self._scheduler = self._start("scheduler", self._address, *self._keys, stderr=subprocess.DEVNULL)
        elif event in ("refused", "denied"):
            self.service.trouble.next(event, "PUT", 8)
        else:
            self.service.trouble.next("", "", 0)  # else the next lines would get it
            name = chance.choice(self.opened.files.names("cells"))
            data = self.opened.files.read(name)
            place = chance.randrange(len(data))
            flipped = data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
            self.opened.files.write(name, data[:place] if event == "cut" else flipped)


@pytest.mark.parametrize("seed", range(2))
def test_a_storm_changes_no_figure_and_is_reported(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    inputs, chance = make_workloads(tmp_path, NUMBER), random.Random(seed)
    plan(tmp_path / "undisturbed", *inputs, passes=PASSES)
    assert call_heaptape("fleet", "work", tmp_path / "undisturbed").status == 0
    events = [*EVENTS, *chance.choices(EVENTS, k=6)]
    chance.shuffle(events)
    events.sort(key=lambda event: event in ("cut", "flipped"))  # there are cells to be damaged
    with serving() as service, contextlib.ExitStack() as ends:
        store = f"{service.bucket()}/fleet"
        assert plan(store, *inputs, passes=PASSES).status == 0
        fleet = Fleet(service, store, tmp_path, inputs, ends)
        with fleet.command() as process:
            for number, event in enumerate(events):
                while process.poll() is None and len(fleet.opened.files.names("cells")) <= number:
                    time.sleep(0.01)
                fleet.happens(event, chance)
        service.trouble.next("", "", 0)
        for _ in range(2):  # damage after the first run had checked a file is found by the second
            with fleet.command():
                pass
        store = open_store(store)
        same_figures(store, tmp_path / "undisturbed")
        assert len(store.cell_keys()) == CELLS
        damaged = store.files.names("damaged")
    workers = (tmp_path / "workers").read_text()
    assert "the scheduler has gone: waiting for it" in fleet.told
    assert "waiting for it" in workers
    assert damaged
    assert all(name in fleet.told + workers for name in damaged)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
@pytest.mark.parametrize(("patience_s", "told"), [(60, "waiting for it"), (0, "No space left on device: tried again")])
def test_a_store_on_a_disk_that_is_full_now_and_then_has_the_same_figures_and_it_is_reported(
    patience_s, told, tmp_path, monkeypatch
):
    """By waiting, or by trying again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    inputs = make_workloads(tmp_path, NUMBER)
    plan(tmp_path / "undisturbed", *inputs, passes=PASSES)
    assert call_heaptape("fleet", "work", tmp_path / "undisturbed").status == 0
    chosen = [word for name in ALLOCATORS for word in ("-a", name)]
    with small_disk(tmp_path / "disk", "16m") as disk, (tmp_path / "told").open("w+") as errors:
        store = disk / "s"
        plan(store, *inputs, passes=PASSES)
        options = (
            "--passes",
            PASSES,
            "--scheduler",
            f"local={WORKERS}",
            "--store-wait",
            patience_s,
            "--retries",
            10**6,
        )

        def lines():
            return Path(errors.name).read_text().count(told)

        with started("replay", *inputs, *chosen, "--store", store, *options, stderr=errors) as process:
            for full in range(4):
                while process.poll() is None and len(cell_files(store)) < 2 * full:
                    time.sleep(0.01)
                in_the_way, before = fill(disk), lines()
                while process.poll() is None and lines() == before:
                    time.sleep(0.01)
                in_the_way.unlink()
            out, _ = process.communicate(timeout=HANG_S)
        assert f"{CELLS} cells: {CELLS} done" in out, Path(errors.name).read_text()
        assert lines() >= 4
        same_figures(store, tmp_path / "undisturbed")
        assert not list(store.rglob("*.partial"))
        opened = open_store(str(store))
        assert not opened.files.names("damaged") + opened.files.names("failures")
