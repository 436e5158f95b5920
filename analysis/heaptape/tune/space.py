# SPDX-License-Identifier: MIT
"""The settings that a search may try: for each tunable a few values, its levels.

Settings are a dict, name of a tunable -> value, in the registry's order, without values that are the default: so two
dicts are equal where the allocator has the same settings. For Optuna a level is its place among the tunable's levels.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from heaptape.common.errors import HeaptapeError
from heaptape.run import registry
from heaptape.run.registry import DEFAULT_VARIANT, Allocator, Choice
from heaptape.run.tunables import Tunable, Tunables

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
        """The settings in the registry's order, without defaults."""
        known = _tunables(self.allocator).space
        return {name: settings[name] for name in known if settings.get(name, UNSET) not in (UNSET, known[name].default)}

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
        name = self.allocator.name
        return registry.choose(f"{name}:{self.label(settings)}", {name: self.allocator})


def space_of(name: str, known: Mapping[str, Allocator], only: Collection[str] = ()) -> Space:
    """The space of an allocator of the registry; `only`: restricted to these tunables. Raises HeaptapeError, in one
    line, where there is nothing to search.
    """
    registry.choose(name, dict(known))  # raises if the name is wrong
    if name not in known:
        raise HeaptapeError(f"{name}: only an allocator of the registry has tunables: {', '.join(known)}")
    allocator = known[name]
    tunables = _tunables(allocator)
    for one in only:
        if one not in tunables.space:
            raise HeaptapeError(f"unknown tunable '{one}' of {name}: known are {', '.join(tunables.space)}")
    names = [one for one, tunable in tunables.space.items() if (one in only if only else tunable.tuned)]
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
