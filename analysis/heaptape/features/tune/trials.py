# SPDX-License-Identifier: MIT
"""Points of a search, measured: one replay for each workload and pass, as many points at once as there are processors.

A replay's memory, instructions and misses are those of its own process, so they are the same beside other replays; the
allocators' clock is the engine's (docs/formats/RESULTS.md), not the machine's.

Points are kept in an Optuna study, in a journal file: each is written when it is measured, so a killed search loses
only replays under way. Settings that are not in the space (a variant's) are trials without parameters.
"""

import contextlib
import dataclasses
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heaptape.allocators.registry import Allocator, Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import locked
from heaptape.features.tune.goals import (
    CPU,
    PASSES_OF_CPU,
    UNSET,
    Figures,
    Goals,
    Key,
    Settings,
    Space,
    key_of,
    space_of,
)
from heaptape.results.comparing.intervals import COUNTED_AGREES
from heaptape.results.model import counts
from heaptape.results.model.penalties import Penalties
from heaptape.results.model.penalties import penalties as read_penalties
from heaptape.results.structs import INTERRUPTED, Misses, Run
from heaptape.run import exact, machine, replay
from heaptape.run.engine_process import Processes, side_by_side
from heaptape.run.exact import PEAK, UPPER

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class Point:
    """Settings and their figures. `error`: why there are none. `again`: how often the settings were replayed before."""

    settings: Settings
    figures: Figures = field(default_factory=dict)
    error: str = ""
    again: int = 0

    @property
    def key(self) -> Key:
        return key_of(self.settings)


# The variable that differs when the same settings are replayed again: allocators that depend on addresses, or seed
# random numbers with them, vary with the length of the environment, which is above the stack. Name, and bytes per
# repetition.
LENGTHENING = ("HEAPTAPE_AGAIN", 16)


class Trials:
    """Workloads, set up once. `workloads`: name -> file."""

    def __init__(self, workloads: Mapping[str, Path], space: Space, goals: Goals, home: Home) -> None:
        """Raises HeaptapeError where a workload can't be replayed, or lacks what a pass needs."""
        for name, path in workloads.items():
            replay.require_accesses(path, name, goals.passes)
        self._space, self._goals = space, goals
        # Before a bench needs this machine's caches, which are measured with the penalties.
        self._penalties = read_penalties(machine.of_this_machine(home)) if CPU in goals.figures else None
        self._processes = Processes()
        self._benches = {name: exact.Bench(path, home, processes=self._processes) for name, path in workloads.items()}

    def measure(self, wanted: Sequence[Settings], jobs: int, again: int = 0) -> Iterator[Point]:
        """Yields a point for each settings as it is measured; `jobs` at once, or fewer where memory is short. Raises
        KeyboardInterrupt where a replay was ended by Ctrl-C. When the iterator is closed early, replays under way are
        ended, and no more can be made.
        """
        room = min(bench.jobs for bench in self._benches.values())
        work = partial(self._point, again=again)
        for _, point in side_by_side(work, wanted, min(jobs, room), self._processes):
            yield point

    def _point(self, settings: Settings, again: int) -> Point:
        choice, found = _lengthened(self._space.choice(settings), again), {}
        for name, bench in self._benches.items():
            try:
                found[name] = self._figures(bench.runs(choice, self._goals.passes), choice)
            except HeaptapeError as error:
                if isinstance(error, exact.RunError) and error.run.kind == INTERRUPTED:
                    raise KeyboardInterrupt from None
                why = str(error) if len(self._benches) == 1 else f"{name}: {error}"
                return Point(settings, error=why, again=again)
        return Point(settings, found, again=again)

    def _figures(self, runs: Mapping[str, Run], choice: Choice) -> dict[str, float]:
        found = {
            name: _cpu_ns(runs, self._penalties) if name == CPU else exact.read(name, runs, choice.label)
            for name in self._goals.figures
        }
        if PEAK in found and (upper := exact.read(UPPER, runs, choice.label)) > found[PEAK]:
            found[UPPER] = upper
        return found


def _lengthened(choice: Choice, again: int) -> Choice:
    name, bytes_ = LENGTHENING
    return replace(choice, environment=choice.environment | {name: "." * (bytes_ * again)}) if again else choice


def _cpu_ns(runs: Mapping[str, Run], penalties: Penalties | None) -> float:
    """CPU time by the model of time in ns, with each penalty in the middle of its range."""
    if penalties is None:
        raise ValueError("no penalties were measured")
    simulated, memory = (runs[pass_] for pass_ in PASSES_OF_CPU)
    counted = counts.of_misses(simulated.misses or Misses(), memory, penalties)
    return sum(term.count * term.penalty.middle for term in counted.terms)


FIGURES = ("rss-peak", "rss-mean", "vmsize-peak", "syscalls", "instructions")


@dataclass(frozen=True)
class Effect:
    """Effect of one value. `changes`: figure -> (change in percent where it is largest, workload), without changes as
    small as those from spelling the default out (they occur where an allocator depends on the clock or on its stack's
    addresses); `error`: why there are none.
    """

    tunable: str
    value: str
    changes: dict[str, tuple[float, str]]
    error: str = ""

    @property
    def none(self) -> bool:
        return not self.changes and not self.error


def effects(
    allocator: Allocator,
    workloads: Mapping[str, Path],
    home: Home,
    jobs: int,
    tell: Callable[[str, float], None] = lambda what, share: None,
) -> list[Effect]:
    """Effects of every tunable, also of those that no search sets, in the registry's order. Raises HeaptapeError where
    the default fails.
    """
    assert allocator.tunables
    space = space_of(allocator.name, {allocator.name: allocator}, allocator.tunables.names)
    goals = Goals(FIGURES, (), {name: 1 / len(workloads) for name in workloads})
    trials = Trials(workloads, space, goals, home)
    wanted = [{}, *_ends(space), *_spelt_out(space)]
    found: dict[Key, Point] = {}
    for point in trials.measure(wanted, jobs):
        found[point.key] = point
        tell(space.label(point.settings), len(found) / len(wanted))
        if not point.settings and point.error:
            raise HeaptapeError(point.error)
    default = found[key_of({})]
    spelt = {name: found[key_of(one)] for one in _spelt_out(space) for name in one}
    return [_effect(found[key_of(one)], default, spelt) for one in _ends(space)]


def silent(found: Sequence[Effect]) -> list[str]:
    names = dict.fromkeys(one.tunable for one in found)
    return [name for name in names if all(one.none for one in found if one.tunable == name)]


def _ends(space: Space) -> Iterable[Settings]:
    tunables = space.allocator.tunables
    assert tunables
    for name in space.levels:
        for value in tunables.space[name].ends:
            if value != UNSET and (settings := space.normal({name: value})):
                yield settings


def _spelt_out(space: Space) -> list[Settings]:
    """Each tunable set explicitly to its default, where that is a single value."""
    return [{name: value} for name in space.levels if (value := space.default_level(name)) != UNSET]


def _effect(point: Point, default: Point, spelt: Mapping[str, Point]) -> Effect:
    ((name, value),) = point.settings.items()
    if point.error:
        return Effect(name, value, {}, point.error)
    same = spelt.get(name, default)
    first, second = default.figures, (default if same.error else same).figures
    return Effect(name, value, {one: most for one in FIGURES if (most := _largest(one, point.figures, first, second))})


def _largest(figure: str, here: Figures, first: Figures, second: Figures) -> tuple[float, str] | None:
    """The largest change in percent, and its workload; None: nowhere larger than the change from spelling the default
    out.
    """
    found = []
    for workload in here:
        value, one, two = (figures[workload][figure] for figures in (here, first, second))
        same = COUNTED_AGREES * one if figure == "instructions" else 0.0
        if min(abs(value - one), abs(value - two)) > max(abs(one - two), same):
            found.append((100 * (value - one) / one if one else 100.0, workload))
    return max(found, key=lambda change: abs(change[0]), default=None)


STUDY = "heaptape"
INSTALL = "pip install optuna"


def require_optuna() -> None:
    """Raises HeaptapeError with the command to install Optuna where it is missing."""
    try:
        import optuna
    except ImportError as error:
        raise HeaptapeError(f"tune needs the Python package optuna: {INSTALL} ({error})") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    warnings.filterwarnings("ignore", message="PedAnovaImportanceEvaluator", category=UserWarning)


def distributions(space: Space) -> dict[str, "optuna.distributions.BaseDistribution"]:
    """Optuna's distributions of the tunables. Numbers are ordered; values of booleans and choices are not."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    tunables = space.allocator.tunables
    assert tunables
    return {
        name: IntDistribution(0, len(levels) - 1)
        if tunables.space[name].is_number
        else CategoricalDistribution(range(len(levels)))
        for name, levels in space.levels.items()
    }


class Store:
    """The points of one search, by settings and how many times these were replayed before; all are also in memory."""

    def __init__(self, study: "optuna.Study", space: Space, path: Path) -> None:
        self._study, self._space, self._path = study, space, path
        points = [Point(**trial.user_attrs) for trial in study.get_trials(deepcopy=False)]
        self.known = {(point.key, point.again): point for point in points}

    @property
    def points(self) -> list[Point]:
        return list(self.known.values())

    def keep(self, point: Point, values: Sequence[float]) -> None:
        """Writes it. `values`: of the objectives; none for a point with an error. Raises HeaptapeError."""
        from optuna.trial import TrialState, create_trial

        places = self._space.places(point.settings)
        trial = create_trial(
            state=TrialState.FAIL if point.error else TrialState.COMPLETE,
            values=None if point.error else list(values),
            params=dict(places or {}),
            distributions=distributions(self._space) if places is not None else {},
            user_attrs=dataclasses.asdict(point),
        )
        try:
            self._study.add_trial(trial)
        except OSError as error:
            raise HeaptapeError(f"{self._path}: can't be written: {error.strerror or error}") from None
        self.known[point.key, point.again] = point


@contextlib.contextmanager
def opened(path: Path, about: Mapping[str, object], objectives: int, space: Space) -> Iterator[Store]:
    """The file's points, or none yet. `about`: the search's inputs, as JSON. Raises HeaptapeError, in one line, if the
    file is of another search, not a search's, or in use.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(path))
            _cut_last_line(path)
            held_lock: Any = _HeldLock()
            storage = JournalStorage(JournalFileBackend(str(path), lock_obj=held_lock))
            study = optuna.create_study(
                storage=storage, study_name=STUDY, load_if_exists=True, directions=["minimize"] * objectives
            )
            there = study.user_attrs.get("about") or {}
            if not there:
                study.set_user_attr("about", dict(about))
            store = Store(study, space, path)
        except BlockingIOError:
            raise HeaptapeError(f"{path}: another search is using it") from None
        except OSError as error:
            raise HeaptapeError(f"{path}: can't be written: {error.strerror or error}") from None
        except (optuna.exceptions.OptunaError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise HeaptapeError(f"{path}: not the journal of a search: {str(error).partition(chr(10))[0]}") from None
        for what, here in json.loads(json.dumps(about)).items() if there else ():
            if there.get(what) != here:
                raise HeaptapeError(
                    f"{path}: holds a search of another {what}: {_brief(there.get(what))}, not {_brief(here)}; "
                    "take another --storage"
                )
        yield store


class _HeldLock:
    """Optuna's lock of a journal, which is ours for the whole search: theirs would survive a kill."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _cut_last_line(path: Path) -> None:
    """Removes a line that a kill left without its end, so that the next one does not continue it."""
    with path.open("r+b") as file:
        data = file.read()
        if data and not data.startswith(b"{"):
            raise ValueError("it does not begin with a record")
        file.truncate(data.rfind(b"\n") + 1)


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
