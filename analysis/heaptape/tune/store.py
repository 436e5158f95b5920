# SPDX-License-Identifier: MIT
"""Keeps the points of a search, so that it can be continued: an Optuna study in an SQLite file.

Each point is written when it is measured; a killed search loses only replays under way. Tools for Optuna's studies can
read the file. Settings that are not in the space (a variant's) are trials without parameters.
"""

import contextlib
import dataclasses
import fcntl
import json
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from heaptape.common.errors import HeaptapeError
from heaptape.tune.goals import Space
from heaptape.tune.trials import Point

if TYPE_CHECKING:
    import optuna

STUDY = "heaptape"
INSTALL = "pip install optuna"
SQLITE = b"SQLite format 3\0"


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
    """The points of one search. All are also in memory."""

    def __init__(self, study: "optuna.Study", space: Space, path: Path) -> None:
        self._study, self._space, self._path = study, space, path
        self.points = [Point(**trial.user_attrs) for trial in study.get_trials(deepcopy=False)]

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
        with _in_one_line(self._path):
            self._study.add_trial(trial)
        self.points.append(point)


@contextlib.contextmanager
def opened(path: Path, about: Mapping[str, object], objectives: int, space: Space) -> Iterator[Store]:
    """The file's points, or none yet. `about`: the search's inputs, as JSON. Raises HeaptapeError, in one line, if the
    file is of another search, not a search's, or in use.
    """
    import optuna
    from optuna.storages import RDBStorage

    with _locked(path):
        with _in_one_line(path):
            storage = RDBStorage(f"sqlite:///{path}", engine_kwargs={"creator": lambda: _connection(path)})
            study = optuna.create_study(
                storage=storage, study_name=STUDY, load_if_exists=True, directions=["minimize"] * objectives
            )
            there = study.user_attrs.get("about")
            _require_same(path, there, json.loads(json.dumps(about)))
            if there is None:
                study.set_user_attr("about", dict(about))
            store = Store(study, space, path)
        try:
            yield store
        finally:
            storage.remove_session()
            storage.engine.dispose()


def _connection(path: Path) -> sqlite3.Connection:
    """A connection without fsync. Written data survives this process at once, and a crash of the machine after the
    system's own write-back: waiting for fsync several times for each point took longer than the replays.
    """
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("pragma synchronous = off")
    return connection


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Creates the file if needed, and locks it against other searches."""
    try:
        file = path.open("a+b")
    except OSError as error:
        raise HeaptapeError(f"{path}: can't be written: {error.strerror or error}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HeaptapeError(f"{path}: another search is using it") from None
        _require_sqlite(path, file)
        yield


def _require_sqlite(path: Path, file: IO[bytes]) -> None:
    file.seek(0)
    head = file.read(len(SQLITE))
    if head and head != SQLITE:
        raise HeaptapeError(f"{path}: offset 0: not the storage of a search")


@contextlib.contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """Turns errors of the file into one line. Ctrl-C passes through."""
    import optuna
    import sqlalchemy

    try:
        yield
    except (optuna.exceptions.OptunaError, sqlalchemy.exc.SQLAlchemyError, KeyError, TypeError, ValueError) as error:
        cause = error.__cause__ or error
        why = str(getattr(cause, "orig", None) or cause).splitlines()
        raise HeaptapeError(f"{path}: not usable as the storage of a search: {why[0] if why else cause!r}") from None


def _require_same(path: Path, there: Mapping | None, here: Mapping) -> None:
    if there is None:
        return
    for what in here:
        if there.get(what) != here[what]:
            raise HeaptapeError(
                f"{path}: holds a search of another {what}: {_brief(there.get(what))}, not {_brief(here[what])}; "
                "take another --storage"
            )


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
