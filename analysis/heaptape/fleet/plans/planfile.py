# SPDX-License-Identifier: MIT
"""The request, from the command line or PLAN.toml. A plan's paths must stay in its folder, as plans are not trusted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from heaptape.common.checked import checked, read_toml
from heaptape.common.errors import HeaptapeError
from heaptape.fleet.plans.plan import Repetitions
from heaptape.fleet.store.cell import Sha
from heaptape.gate import corpus
from heaptape.run.rounds import PASSES

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_PASSES = ("instructions", "memory")


class PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tapes`: traces, workloads and folders of them. `workloads`: sha256 of workloads in the store. `allocators`: as
    'heaptape replay -a' takes them; none: all that are found. `weights`: of workloads in the fleet, by name or by the
    tape as written in `tapes`; 1 where not given.
    """

    tapes: tuple[str, ...] = ()
    workloads: tuple[Sha, ...] = ()
    allocators: tuple[str, ...] = ()
    baseline: str = "glibc"
    passes: tuple[str, ...] = DEFAULT_PASSES
    repetitions: Repetitions = 5
    seed: int = 0
    weights: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}


def read(path: Path) -> PlanFile:
    """A plan, its paths made absolute. Raises HeaptapeError, naming the file, where it is malformed or a path leads out
    of its folder.
    """
    plan = checked(path, read_toml(path), PlanFile)
    unknown = [name for name in plan.passes if name not in PASSES]
    if unknown:
        raise HeaptapeError(f"{path}: passes: unknown pass '{unknown[0]}': there are {', '.join(PASSES)}")
    return msgspec.structs.replace(
        plan,
        tapes=tuple(str(_beside(path, name)) for name in plan.tapes),
        weights=_by_name(path, plan),
        allocators=tuple(_allocator(path, name) for name in plan.allocators),
    )


def of_inputs(inputs: Sequence[str]) -> PlanFile:
    """The request of the command line: one PLAN.toml, or traces and workloads."""
    plans = [name for name in inputs if name.endswith(".toml")]
    if plans and len(inputs) > 1:
        raise HeaptapeError(f"{plans[0]}: a plan is given alone: it names its own tapes")
    return read(Path(plans[0])) if plans else PlanFile(tapes=tuple(inputs))


def _allocator(plan: Path, name: str) -> str:
    """An allocator's name; the path of a library is made absolute."""
    library, colon, setting = name.partition(":")
    if "/" in library or library.endswith(".so"):
        return f"{_beside(plan, library)}{colon}{setting}"
    return name


def _beside(plan: Path, name: str) -> Path:
    folder = plan.parent.resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise HeaptapeError(f"{plan}: '{name}' leads out of the plan's folder")
    return path


def chosen_plan(place: Path, chosen: "pd.DataFrame", baseline: str) -> str:
    """A plan to be written to `place`, of chosen recordings with their weights (choose.CHOSEN). Raises HeaptapeError
    where a recording is not below that folder, as then the plan could not be read.
    """
    folder = place.parent.resolve()
    weights = {}
    for source, weight in zip(chosen["source"], chosen["weight"], strict=True):
        path = Path(source).resolve()
        if not path.is_file() or not path.is_relative_to(folder):
            raise HeaptapeError(
                f"{place}: {source} is not below the plan's folder: write the plan above its recordings"
            )
        weights[str(path.relative_to(folder))] = weight
    lines = [
        "# Recordings that stand for a fleet, by 'heaptape fleet choose'; for 'heaptape fleet replay'.",
        *("tapes = [", *(f"  {json.dumps(tape)}," for tape in weights), "]"),
        *(f"baseline = {json.dumps(baseline)}", "", "[weights]"),
        *(f"{json.dumps(tape)} = {weight!r}" for tape, weight in weights.items()),
    ]
    return "\n".join(lines) + "\n"


def _by_name(path: Path, plan: PlanFile) -> dict[str, float]:
    """The weights by workload name; keys that are tapes as written in the plan are translated."""
    if not any(key in plan.tapes for key in plan.weights):
        return plan.weights
    found = corpus.find(str(_beside(path, tape)) for tape in plan.tapes)
    names = {file.resolve(): name for name, file in found.items()}
    return {
        names.get(_beside(path, key), key) if key in plan.tapes else key: weight for key, weight in plan.weights.items()
    }
