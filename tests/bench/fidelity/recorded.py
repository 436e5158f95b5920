# SPDX-License-Identifier: MIT
"""Live runs under the recorder, which counts calls: their memory at the same points of the program."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.run import capture, live, replay
from heaptape.run.recipes import Recipe
from heaptape.run.samples import Samples, read_samples

from tests.bench.fidelity import prediction

KIND = "recorded"
# How often the recorder samples the program's memory: with 10 ms, means are off where a peak is shorter.
SAMPLE_MS = 2
POINTS = 120


@dataclass(frozen=True)
class Recording:
    """A recording, compiled: its files, facts about the workload, and RssAnon in bytes at each sample."""

    tape: Path
    workload: Path
    about: dict
    samples: Samples
    rss_anon: np.ndarray


@dataclass(frozen=True)
class Series:
    """Parameters common to all recordings of a program."""

    recipe: Recipe
    place: live.Place
    cache: Path
    tell: Callable[[str], None] = lambda text: None

    def record(
        self, choices: Sequence[Choice], repeats: int, baseline: str, failures: dict[str, str]
    ) -> tuple[Recording, list[dict]]:
        """The recording to be replayed (the first on the allocator `baseline`, whose files are kept), and a row for
        each live run on each allocator. An allocator on which a run fails has the reason in `failures`, under its label
        and the kind of run. Raises HeaptapeError where the first run on the baseline fails.
        """
        first = next(choice for choice in choices if choice.label == baseline)
        self.tell(f"recording, {baseline}")
        base = self._record(first, "base")
        rows = [row(base, first, 0, base.samples)]
        for number in range(repeats):
            for choice in choices:
                about = f"{choice.label}, {KIND}"
                if about in failures or (number == 0 and choice is first):
                    continue
                self.tell(f"live, {KIND}, {number + 1} of {repeats}, {choice.label}")
                try:
                    rows.append(row(self._record(choice, "other"), choice, number, base.samples))
                except HeaptapeError as error:
                    failures[about] = str(error)
                shutil.rmtree(self.place.scratch / "other", ignore_errors=True)
        return base, rows

    def _record(self, choice: Choice, folder: str) -> Recording:
        """Records into a new folder of the scratch place."""
        home, into = self.place.home, self.place.scratch / folder
        into.mkdir()
        tape = into / f"{self.recipe.name}.tape"
        options = ("--preload", choice.preload or live.c_library(), "--sample-ms", str(SAMPLE_MS))
        capture.capture(self.recipe, tape, home, options, cache=self.cache, environment=choice.environment)
        workload = replay.prepare(str(tape), home, into)
        return Recording(tape, workload, replay.describe_workload(workload, tape.stem), *read_samples(tape, workload))


def row(recording: Recording, choice: Choice, repeat: int, clock: Samples) -> dict:
    """The live run as a row of a raw result. `clock`: samples of the recording that is replayed."""
    mean = prediction.aligned_mean(recording.samples, recording.rss_anon, clock)
    return {
        "allocator": choice.label,
        "kind": KIND,
        "repeat": repeat,
        "ops": recording.about["ops"],
        "rss_anon_peak_bytes": int(recording.rss_anon.max()),
        "rss_anon_aligned_mean_bytes": round(mean),
        "timeline": prediction.thinned(recording.samples.share, recording.rss_anon, POINTS),
    }
