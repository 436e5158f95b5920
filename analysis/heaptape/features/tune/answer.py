# SPDX-License-Identifier: MIT
"""A search's results as data: every point, the front, the winner and the effect of each of its settings."""

import time
from collections.abc import Mapping, Sequence

from heaptape.common.version import __version__
from heaptape.features.tune import confirm
from heaptape.features.tune.confirm import Judged, by_key, front, judged
from heaptape.features.tune.goals import Goals, Key, Settings, Space, key_of
from heaptape.features.tune.search import trials
from heaptape.features.tune.trials import Point
from heaptape.results import replay_errors
from heaptape.run import machine, replay

SCHEMA = 1
FEWEST_POINTS = 20  # with fewer, importances are random
ANOTHER = "another"  # an allocator that was not measured has the error of all allocators together
# figure -> its name in the certificate of replays
OF_CERTIFICATE = {"rss-peak": "peak_rss", "rss-mean": "mean_rss", "vmsize-peak": "vm_size"}


def answer(space: Space, goals: Goals, points: Sequence[Point], about: dict) -> dict:
    """The content of a results file of `heaptape tune` (docs/use/TUNING.md). `about`: the search's inputs."""
    rows = judged(points, goals)
    refuted = confirm.refuted(points, goals)
    best, standing = confirm.named(rows, points, goals)
    labels, replays = _labels(space), confirm.replays(points)
    on_front = {row.point.key for row in front(rows, refuted)}
    found = [
        _row(row, space, labels)
        | {"front": row.point.key in on_front, "refuted": row.point.key in refuted}
        | {"again": [_again(point) for point in replays[row.point.key][1:]]}
        for row in rows
    ]
    failed = [_failed(point, space, labels) for point in points if point.error and not point.again]
    return {
        "schema": SCHEMA,
        "heaptape": {"version": __version__, "commit": replay.commit()},
        "created_unix_s": round(time.time()),
        "machine": machine.describe(),
        "search": about,
        "variants_left_out": list(space.left_out),
        "points": found + failed,
        "winner": _row(best, space, labels) | _confirmed(best, standing, replays, goals) if best else None,
        "tunables": contributions(space, rows, best),
        "error_percent": _margins(space, goals),
    }


def contributions(space: Space, rows: Sequence[Judged], best: Judged | None) -> list[dict]:
    """For each tunable: the share of the differences between points that it explains (Optuna's PED-ANOVA, of the
    balance; None where it can't be determined), its best result alone, and the winner's result without it, each as
    ratios to the default by figure (None: not tried, or not among the winner's settings).
    """
    known = by_key(rows)
    importances = _importances(space, rows)
    found = []
    for name, levels in space.levels.items():
        alone = [row for level in levels if level and (row := known.get(key_of(space.normal({name: level}))))]
        one = min((row for row in alone if row.settings), key=lambda row: row.balance, default=None)
        dropped = known.get(key_of(space.without(best.settings, name))) if best and name in best.settings else None
        found.append(
            {
                "name": name,
                "importance": importances.get(name),
                "alone": {"value": one.settings[name], "ratios": one.ratios} if one else None,
                "winner": best.settings.get(name) if best else None,
                "winner_without": {"ratios": dropped.ratios, "feasible": dropped.feasible} if dropped else None,
            }
        )
    return found


def _importances(space: Space, rows: Sequence[Judged]) -> dict[str, float]:
    import optuna

    made = trials(rows, space)
    balance = {row.values: row.balance for row in rows}
    few = len(made) < FEWEST_POINTS or len(space.levels) < 2
    if few or len({balance[tuple(trial.values)] for trial in made}) < 2:
        return {}
    study = optuna.create_study(directions=["minimize"] * len(made[0].values))
    study.add_trials(made)
    return optuna.importance.get_param_importances(
        study,
        evaluator=optuna.importance.PedAnovaImportanceEvaluator(),
        target=lambda trial: balance[tuple(trial.values)],
    )


def _labels(space: Space) -> dict:
    """key -> the variants with these settings."""
    found: dict = {}
    for label, settings in space.variants.items():
        found.setdefault(key_of(settings), []).append(label)
    return found


def _named(settings: Settings, space: Space, labels: dict) -> dict:
    return {
        "variants": labels.get(key_of(settings), []),
        "label": space.label(settings),
        "settings": settings,
        "environment": space.environment(settings),
    }


def _row(row: Judged, space: Space, labels: dict) -> dict:
    return _named(row.settings, space, labels) | {
        "figures": row.point.figures,
        "ratios": row.ratios,
        "limits_kept": row.feasible,
        "excess": list(row.excess),
    }


def _again(point: Point) -> dict:
    return {"error": point.error} if point.error else {"figures": point.figures}


def _confirmed(best: Judged, standing: confirm.Standing, replays: Mapping[Key, Sequence[Point]], goals: Goals) -> dict:
    if not best.settings:
        return {"standing": "default", "ratios_again": {}}
    again = confirm.ratios(replays[key_of({})], replays[best.point.key], goals)
    return {"standing": standing.value, "ratios_again": again}


def _failed(point: Point, space: Space, labels: dict) -> dict:
    return _named(point.settings, space, labels) | {"error": point.error}


def _margins(space: Space, goals: Goals) -> dict[str, float | None]:
    """figure -> by how much a replay may be off, in percent: the error within which 9 of 10 programs were on this
    allocator; for the allocator that programs were recorded on, on the others. None: not measured.
    """
    found: dict[str, float | None] = {}
    for name in goals.figures:
        certified = OF_CERTIFICATE.get(name)
        error = replay_errors.error_percent(certified, space.allocator.name) if certified else None
        # The allocator that programs were recorded on has error 0 by construction, but with settings it has an error.
        found[name] = replay_errors.error_percent(certified, ANOTHER) if certified and error == 0 else error
    return found
