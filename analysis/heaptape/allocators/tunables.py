# SPDX-License-Identifier: MIT
"""The settings of an allocator (allocators.toml): how to set them, their values, and which are worth a search."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from heaptape.allocators.installed import version_key
from heaptape.common.errors import HeaptapeError

SMALLEST_BYTES = 4096  # of a logarithmic scale that has to begin somewhere above 0
LEVELS = 9  # values of a number that a search tries: with more of them it finds the ends later


class Tunable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setting. `range`: the allocator's limits for an integer or bytes, both ends included; `search`: the part
    of it that is worth a search (default: all). `values`: of a boolean (no, yes) or of a choice. `default`: the value
    if it is not set; empty: not a single value, as it depends on the machine or adapts to the program. `tuned`: a
    search sets it; False for settings that are for diagnosis, make calls fail, change only clock or processor figures,
    or need the administrator's help. `before`: the version of the allocator from which on it has no effect; `since`:
    fields that are others from a version on. `pair`: a tunable that a search sets together with this one, and how many
    times this one's value it gets, as either alone stops both from adapting.
    """

    type: Literal["integer", "bytes", "boolean", "choice"]
    meaning: str
    range: tuple[int, int] | None = None
    search: tuple[int, int] | None = None
    scale: Literal["linear", "log"] = "linear"
    values: tuple[str, ...] = ()
    default: str = ""
    tuned: bool = True
    before: str = ""
    since: dict[str, dict[str, str | tuple[int, int]]] = {}
    pair: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        if self.is_number != (self.range is not None) or (self.is_number and self.values):
            raise ValueError("`range` is of an integer or bytes, `values` of a boolean or a choice")
        if not self.is_number and (self.search or len(self.values) < 2):
            raise ValueError("a boolean or a choice has two `values` or more, and no `search`")
        if self.type == "boolean" and len(self.values) != 2:
            raise ValueError("a boolean has two `values`")
        for low, high in filter(None, (self.range, self.search)):
            if low > high or self.complaint(str(low)) or self.complaint(str(high)):
                raise ValueError(f"{low} to {high} is not a range of it")
        if self.default and self.complaint(self.default):
            raise ValueError(f"default: {self.complaint(self.default)}")

    def of_version(self, version: str) -> "Tunable":
        """The tunable as that version of the allocator has it; as the oldest, where the version is not known."""
        changes = [self.since[one] for one in sorted(self.since, key=version_key) if version and _reaches(version, one)]
        return msgspec.structs.replace(self, since={}, **{key: v for one in changes for key, v in one.items()})

    @property
    def is_number(self) -> bool:
        return self.type in ("integer", "bytes")

    @property
    def ends(self) -> tuple[str, ...]:
        """Least and greatest value of a search; all values of a boolean or a choice."""
        low_high = self.search or self.range
        return tuple(str(value) for value in low_high) if low_high else self.values

    def complaint(self, value: str) -> str:
        """Why the allocator would not accept the value; empty if it does."""
        if self.range is None:
            return "" if value in self.values else f"'{value}' is none of {', '.join(self.values)}"
        if not re.fullmatch(r"-?\d{1,19}", value):
            return f"'{value}' is not a whole number"
        low, high = self.range
        return "" if low <= int(value) <= high else f"{value} is out of its range, {low} to {high}"

    def levels(self, more: Iterable[str] = ()) -> tuple[str, ...]:
        """The values that a search tries, in order: for a number about LEVELS values, equally far apart on its scale,
        including both ends, the default, and `more`.
        """
        low_high = self.search or self.range
        if low_high is None:
            return self.values
        smallest = SMALLEST_BYTES if self.type == "bytes" else 1
        found = _apart(*low_high, self.scale, smallest) | {int(value) for value in (self.default, *more) if value}
        return tuple(str(value) for value in sorted(found))


def _reaches(version: str, first: str) -> bool:
    return version_key(version) >= version_key(first)


def _apart(low: int, high: int, scale: str, smallest: int) -> set[int]:
    """Whole numbers from low to high; on a logarithmic scale powers of two between them. Such a scale has no 0: if
    `low` is 0, it begins at `smallest`, and 0 is added.
    """
    steps = [step / (LEVELS - 1) for step in range(LEVELS)]
    if scale == "linear":
        return {low + round(step * (high - low)) for step in steps}
    first = math.log2(low if low > 0 else min(smallest, high))
    powers = {2 ** round(first + step * (math.log2(high) - first)) for step in steps}
    return {low, high} | {power for power in powers if low < power < high}


class Tunables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All tunables of an allocator. The environment's `variable` is set to `form` of each {name} and {value}, joined by
    `separator`. If the variable contains {NAME}, there is one for each tunable. `counting`: settings that make the
    allocator count its own operations. `absent`: names that this version of the allocator does not know;
    `listed`: those of all versions, where these are of one.
    """

    variable: str
    space: dict[str, Tunable]
    form: str = "{value}"
    separator: str = ""
    counting: dict[str, str] = {}
    absent: frozenset[str] = frozenset()
    listed: "Tunables | None" = None

    def of_version(self, version: str, known: frozenset[str] | None = None) -> "Tunables":
        """Those of that version. `known`: the names that it has; None: all."""
        listed = self.listed or self
        space = {name: one.of_version(version) for name, one in listed.space.items()}
        absent = frozenset() if known is None else frozenset(space) - known
        return msgspec.structs.replace(self, space=space, absent=absent, listed=listed)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.space)

    def environment(self, settings: dict[str, str]) -> dict[str, str]:
        if "{NAME}" in self.variable:
            return {
                self.variable.replace("{NAME}", name.upper()): self.form.format(name=name, value=value)
                for name, value in settings.items()
            }
        parts = [self.form.format(name=name, value=value) for name, value in settings.items()]
        return {self.variable: self.separator.join(parts)} if parts else {}

    def with_counting(self, environment: dict[str, str]) -> dict[str, str]:
        """These variables, and those that make the allocator count."""
        more = self.environment(self.counting)
        joined = {k: self.separator.join([environment[k], v]) if k in environment else v for k, v in more.items()}
        return environment | joined

    def settings(self, environment: Mapping[str, str]) -> dict[str, str] | None:
        """The inverse of `environment`: the settings of these variables. None: they set something else, too."""
        found = {}
        for variable, text in environment.items():
            parts = text.split(self.separator) if self.separator else [text]
            for part in parts if variable == self.variable or "{NAME}" in self.variable else [""]:
                name = next((name for name in self.space if self._sets(name, variable, part)), None)
                if name is None:
                    return None
                found[name] = part.removeprefix(self._before(name))
        return found

    def idle(self, names: Iterable[str], version: str) -> list[str]:
        """Those of the tunables that have no effect in that version; none if it is not known."""
        return [name for name in names if self.why_idle(name, version)]

    def why_idle(self, name: str, version: str) -> str:
        """Why that tunable has no effect in that version; empty: it has one, or that is not known."""
        first = self.space[name].before
        if name in self.absent:
            return f"version {version} has no tunable {name}" if version else f"it has no tunable {name}"
        return f"{name} has no effect from version {first} on" if first and version and _reaches(version, first) else ""

    def check(self, settings: Mapping[str, str]) -> None:
        """Raises HeaptapeError for a value that the allocator would not accept."""
        for name, value in settings.items():
            complaint = self.space[name].complaint(value)
            if complaint:
                unchecked = " ".join(f"{key}={text}" for key, text in self.environment({name: value}).items())
                raise HeaptapeError(f"{name}={value}: {complaint} ({unchecked} sets it unchecked)")

    def _before(self, name: str) -> str:
        return self.form.partition("{value}")[0].format(name=name)

    def _sets(self, name: str, variable: str, part: str) -> bool:
        return variable == self.variable.replace("{NAME}", name.upper()) and part.startswith(self._before(name))
