# SPDX-License-Identifier: MIT
"""What is asked of a search: figures to be minimised, others within limits, over one or several workloads; and the
settings that it may try: for each tunable a few values, its levels.

Settings are a dict, name of a tunable -> value, in the registry's order, without values that are the default: so two
dicts are equal where the allocator has the same settings. For Optuna a level is its place among the tunable's levels.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from heaptape.allocators import registry
from heaptape.allocators.registry import DEFAULT_VARIANT, Allocator, Choice
from heaptape.allocators.tunables import Tunable, Tunables
from heaptape.common.engine import OF_ACCESSES
from heaptape.common.errors import HeaptapeError, UsageError, unknown
from heaptape.results.recorded_on import short_version
from heaptape.run import exact

CPU = "cpu"  # the program's CPU time as the model of time predicts it, in ns
FIGURES = (*exact.FIGURES, CPU)
PASSES_OF_CPU = (*OF_ACCESSES, "memory")
SHORT = {"rss": "rss-peak"}
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

# workload -> figure -> value; UPPER where the peak is a range
Figures = Mapping[str, Mapping[str, float]]


def _ends(name: str, found: Mapping[str, float], default: Mapping[str, float]) -> list[tuple[float, float]]:
    """The figure and the default's, at both ends where one of them is a range."""
    pairs = [(found[name], default[name])]
    if name == exact.PEAK and (exact.UPPER in found or exact.UPPER in default):
        pairs.append((found.get(exact.UPPER, found[name]), default.get(exact.UPPER, default[name])))
    return pairs


@dataclass(frozen=True)
class Limit:
    """`figure` is to be at most `most`, or with `of_default` at most that many times the default's; on each workload.
    `text`: as it was given.
    """

    text: str
    figure: str
    most: Fraction
    of_default: bool

    def excess(self, found: Figures, default: Figures) -> float:
        """By which share the limit is exceeded, on the workload where that is most; 0 or less: it is kept. The sign is
        exact.
        """
        return max(
            self._excess(*ends) for name, one in found.items() for ends in _ends(self.figure, one, default[name])
        )

    def _excess(self, value: float, default: float) -> float:
        bound = self.most * Fraction(default) if self.of_default else self.most
        beyond = Fraction(value) - bound
        return float(beyond / bound) if bound > 0 else float(beyond)


@dataclass(frozen=True)
class Goals:
    """`weights`: workload -> its share; they add up to 1."""

    objectives: tuple[str, ...]
    limits: tuple[Limit, ...]
    weights: Mapping[str, float]

    @property
    def figures(self) -> tuple[str, ...]:
        """All figures that are needed of a point."""
        return tuple(dict.fromkeys([*self.objectives, *(limit.figure for limit in self.limits)]))

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes that the figures need, each run once per point."""
        wanted = [PASSES_OF_CPU if name == CPU else (exact.FIGURES[name].pass_,) for name in self.figures]
        return tuple(dict.fromkeys(pass_ for passes in wanted for pass_ in passes))

    @property
    def runs_of_a_point(self) -> int:
        return len(self.passes) * len(self.weights)

    def ratios(self, found: Figures, default: Figures) -> dict[str, float]:
        """figure -> the weighted geometric mean over workloads of its ratio to the default's, of a range at the end
        where that is larger.
        """

        def log_ratio(workload: str, name: str) -> float:
            return max(_log_ratio(*ends) for ends in _ends(name, found[workload], default[workload]))

        return {
            name: math.exp(sum(self.weights[w] * log_ratio(w, name) for w in self.weights)) for name in self.figures
        }

    def excess(self, found: Figures, default: Figures) -> list[float]:
        return [limit.excess(found, default) for limit in self.limits]


def balance_of(ratios: Sequence[float]) -> float:
    """One number for several objectives: the geometric mean of their ratios."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _log_ratio(value: float, default: float) -> float:
    # Where the default has 0, 1 counts as twice as much.
    return math.log(value / default) if value > 0 and default > 0 else math.log((value + 1) / (default + 1))


def objectives(text: str) -> tuple[str, ...]:
    """The objectives in a comma-separated list. Raises UsageError."""
    names = tuple(dict.fromkeys(SHORT.get(name, name) for name in text.split(",") if name))
    for name in names:
        _known("--objective", name)
    if not names:
        raise UsageError(f"tune --objective: none: there are {', '.join(FIGURES)}")
    return names


def limits(texts: Sequence[str]) -> tuple[Limit, ...]:
    """Limits `FIGURE<=NUMBER*today` (or `*default`) or `FIGURE<=NUMBER[KiB|MiB|GiB]`, several joined by commas. Raises
    UsageError.
    """
    return tuple(_limit(text.strip()) for given in texts for text in given.split(","))


def _limit(text: str) -> Limit:
    match = re.fullmatch(
        r"([a-z-]+)\s*<=\s*(\d+(?:\.\d+)?)\s*(?:\*\s*(default|today)|([kmg])(?:i?b)?)?", text, re.IGNORECASE
    )
    if not match:
        raise UsageError(f"tune --limit: '{text}' is neither FIGURE<=NUMBER*today nor FIGURE<=NUMBER[KiB|MiB|GiB]")
    figure = SHORT.get(match[1], match[1])
    _known("--limit", figure)
    return Limit(text, figure, Fraction(match[2]) * UNITS[(match[4] or "").lower()], bool(match[3]))


def weights(names: Sequence[str], text: str) -> dict[str, float]:
    """Name of a workload -> its share. `text`: a number for each, joined by commas; empty: equal shares. Raises
    UsageError.
    """
    try:
        given = [float(word) for word in text.split(",")] if text else [1.0] * len(names)
    except ValueError:
        raise UsageError(f"tune --weights: '{text}' is not a list of numbers") from None
    if len(given) != len(names):
        raise UsageError(f"tune --weights: {len(given)} for {len(names)} workloads")
    if not all(0 < weight < math.inf for weight in given):
        raise UsageError("tune --weights: each has to be more than 0")
    return {name: weight / sum(given) for name, weight in zip(names, given)}


def _known(option: str, name: str) -> None:
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)


UNSET = ""

Settings = dict[str, str]
Key = frozenset[tuple[str, str]]


def key_of(settings: Mapping[str, str]) -> Key:
    """The key of settings in dicts and sets."""
    return frozenset(settings.items())


@dataclass(frozen=True)
class Space:
    """`levels`: tunable -> its values; UNSET is one of them where the default is not a single value. `variants`: the
    allocator's variants by label, the default first; they may set tunables that are not searched. `left_out`: variants
    for diagnosis, or that set something other than tunables.
    """

    allocator: Allocator
    levels: dict[str, tuple[str, ...]]
    variants: dict[str, Settings]
    left_out: tuple[str, ...]

    @property
    def size(self) -> int:
        product = 1
        for levels in self.levels.values():
            product *= len(levels)
        return product

    def normal(self, settings: Mapping[str, str]) -> Settings:
        """The settings in the registry's order, without defaults. Of a pair, neither or both: the second gets the level
        nearest to its share of the first; where one is UNSET, both are.
        """
        known = _tunables(self.allocator).space
        both = dict(settings)
        for name, value in settings.items():
            if (pair := known[name].pair) is None:
                continue
            other, times = pair
            if UNSET in (value, settings.get(other)):
                both[name] = both[other] = UNSET
            elif other not in settings:
                numbers = [int(level) for level in self.levels.get(other, known[other].ends) if level != UNSET]
                both[other] = str(min(numbers, key=lambda number: abs(number - times * int(value))))
        return {name: both[name] for name in known if both.get(name, UNSET) not in (UNSET, known[name].default)}

    def without(self, settings: Mapping[str, str], name: str) -> Settings:
        """The settings without that one, and without its pair."""
        pair = _tunables(self.allocator).space[name].pair
        return {one: value for one, value in settings.items() if one != name and not (pair and one == pair[0])}

    def default_level(self, name: str) -> str:
        """The level of the tunable when it is not set."""
        return _tunables(self.allocator).space[name].default

    def places(self, settings: Mapping[str, str]) -> dict[str, int] | None:
        """tunable -> place of its level; None: a setting is not in this space."""
        if not settings.keys() <= self.levels.keys():
            return None
        wanted = {name: settings.get(name, self.default_level(name)) for name in self.levels}
        if any(value not in self.levels[name] for name, value in wanted.items()):
            return None
        return {name: self.levels[name].index(value) for name, value in wanted.items()}

    def at(self, places: Mapping[str, int]) -> Settings:
        """The settings with the levels at those places."""
        return self.normal({name: self.levels[name][place] for name, place in places.items()})

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        return _tunables(self.allocator).environment(dict(settings))

    def label(self, settings: Mapping[str, str]) -> str:
        """The variant's name, as in `-a NAME:...`: the settings, or "default"."""
        return " ".join(f"{name}={value}" for name, value in settings.items()) or DEFAULT_VARIANT

    def choice(self, settings: Mapping[str, str]) -> Choice:
        return registry.choose_setting(self.allocator, self.label(settings))


def space_of(name: str, known: Mapping[str, Allocator], only: Collection[str] = ()) -> Space:
    """The space of an allocator of the registry; `only`: restricted to these tunables. Raises HeaptapeError, in one
    line, where there is nothing to search.
    """
    if registry.is_library(name):
        raise HeaptapeError(f"{name}: only an allocator of the registry has tunables: {', '.join(known)}")
    allocator = registry.named(name, dict(known))
    registry.choose_setting(allocator, DEFAULT_VARIANT)  # raises if it is not installed
    tunables = _tunables(allocator)
    for one in only:
        if one not in tunables.space:
            raise HeaptapeError(f"unknown tunable '{one}' of {name}: known are {', '.join(tunables.space)}")
    idle = tunables.idle(tunables.space, short_version(allocator.version))
    names = [one for one, tunable in tunables.space.items() if (one in only if only else tunable.tuned)]
    names = [one for one in names if one not in idle]
    variants, left_out = _variants(allocator, tunables)
    levels = {one: _levels(tunables.space[one], [v[one] for v in variants.values() if one in v]) for one in names}
    space = Space(allocator, levels, {DEFAULT_VARIANT: {}}, tuple(left_out))
    space.variants.update({label: space.normal(settings) for label, settings in variants.items()})
    return space


def _tunables(allocator: Allocator) -> Tunables:
    if allocator.tunables is None:
        raise HeaptapeError(f"{allocator.name} has no tunables")
    return allocator.tunables


def _levels(tunable: Tunable, of_variants: Collection[str]) -> tuple[str, ...]:
    found = tunable.levels(of_variants if tunable.is_number else ())
    return found if tunable.default else (UNSET, *found)


def _variants(allocator: Allocator, tunables: Tunables) -> tuple[dict[str, Settings], list[str]]:
    found, left_out = {}, []
    for label, variant in allocator.variants.items():
        settings = tunables.settings(variant.environment)
        if settings is None or not all(tunables.space[name].tuned for name in settings):
            left_out.append(label)
        else:
            found[label] = settings
    return found, left_out
