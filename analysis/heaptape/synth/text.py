# SPDX-License-Identifier: MIT
"""Events as heaptape's own text (convert/formats/importers/import_text.c), on the order of a million lines a second.

All lines have the same length, with numbers padded by zeros, so that a whole part is one array of characters.
"""

import json

import numpy as np

from heaptape.common.errors import HeaptapeError
from heaptape.synth.events import ACQUIRE, MOVE, NOTHING, RELEASE, Events

HEADER = "# heaptape-text 1 clock=ordinal synthetic="
ALIGNMENT = "64"  # bytes; profiles lack it
CHUNK = 10_000  # digits are looked up four at a time
TIME_DIGITS = 12
_DIGITS = {"#": 8, "S": 12, "P": 12, "Q": 12}
_DECIMAL = np.array([list(f"{number:04d}".encode()) for number in range(CHUNK)], np.uint8)
# How objects of a call are released; objects of calls not listed by free.
_RELEASES = {
    "operator new": "delete(0xP0)",
    "operator new[]": "delete_array(0xP0)",
    "operator new(nothrow)": "delete_nothrow(0xP0)",
    "operator new[](nothrow)": "delete_array_nothrow(0xP0)",
    "operator new(align)": f"delete_aligned(0xP0, {ALIGNMENT})",
    "operator new[](align)": f"delete_array_aligned(0xP0, {ALIGNMENT})",
    "operator new(align,nothrow)": f"delete_aligned_nothrow(0xP0, {ALIGNMENT})",
    "operator new[](align,nothrow)": f"delete_array_aligned_nothrow(0xP0, {ALIGNMENT})",
}
# name in results -> identifier, arguments with S for the size
_ACQUIRES = {
    "malloc": "malloc(S)",
    "calloc": "calloc(1, S)",
    "realloc": "realloc(NULL, S)",
    "reallocarray": "reallocarray(NULL, 1, S)",
    "posix_memalign": f"posix_memalign({ALIGNMENT}, S)",
    "aligned_alloc": f"aligned_alloc({ALIGNMENT}, S)",
    "memalign": f"memalign({ALIGNMENT}, S)",
    "valloc": "valloc(S)",
    "pvalloc": "pvalloc(S)",
    "operator new": "new(S)",
    "operator new[]": "new_array(S)",
    "operator new(nothrow)": "new_nothrow(S)",
    "operator new[](nothrow)": "new_array_nothrow(S)",
    "operator new(align)": f"new_aligned({ALIGNMENT}, S)",
    "operator new[](align)": f"new_array_aligned({ALIGNMENT}, S)",
    "operator new(align,nothrow)": f"new_aligned_nothrow({ALIGNMENT}, S)",
    "operator new[](align,nothrow)": f"new_array_aligned_nothrow({ALIGNMENT}, S)",
}


class _Form:
    """A line of one kind; T, #, S, P and Q stand for time, thread, size and places, in fixed numbers of digits."""

    def __init__(self, form: str, width: int) -> None:
        """The time gets as many digits as make the line `width` wide."""
        digits = dict(_DIGITS)
        digits["T"] = width - _length(form)
        line = form
        for sign, count in digits.items():
            line = line.replace(sign, sign * count)
        self._line = np.frombuffer(f"{line}\n".replace("T", "0").encode(), np.uint8)
        places = {sign: line.index(sign * count) for sign, count in digits.items() if sign * count in line}
        self._fields = [(sign, places[sign], digits[sign]) for sign in places if sign != "T"]
        self._fields.append(("T", digits["T"] - TIME_DIGITS, TIME_DIGITS))

    def lines(self, count: int, values: dict[str, np.ndarray]) -> np.ndarray:
        """An array of characters, a row for each line."""
        made = np.tile(self._line, (count, 1))
        for sign, begin, width in self._fields:
            _write_digits(made[:, begin : begin + width], values[sign])
        return made


def _length(form: str) -> int:
    return len(form) - 1 + sum(form.count(sign) * (digits - 1) for sign, digits in _DIGITS.items())


def _write_digits(place: np.ndarray, numbers: np.ndarray) -> None:
    end = place.shape[1]
    while end > 0:
        begin = max(end - 4, 0)
        place[:, begin:end] = _DECIMAL[numbers % CHUNK, 4 - (end - begin) :]
        numbers, end = numbers // CHUNK, begin


class Lines:
    """Text of events, part by part. `calls`: names by number, as in `distributions.Kinds`."""

    def __init__(self, path: str, calls: tuple[str, ...]) -> None:
        """Raises HeaptapeError for an unknown call; `path`: the profile's."""
        unknown = next((name for name in calls if name not in _ACQUIRES), None)
        if unknown is not None:
            raise HeaptapeError(f"{path}: sizes: '{unknown}' is not a call that acquires")
        # A place is written in decimal and read as hexadecimal digits: still unique, and 16 bytes apart.
        forms = [f"T # {_ACQUIRES[name]} = 0xP0" for name in calls]
        forms += ["T # realloc(0xP0, S) = 0xQ0"]
        forms += [f"T # {_RELEASES.get(name, 'free(0xP0)')}" for name in calls]
        forms += ["T # free(NULL)"]
        forms += [f"T # {_RELEASES.get(name, 'free(0xP0)')} touched=S" for name in calls]
        self._calls, self._count = len(calls), 0
        self._width = max(map(_length, forms)) + TIME_DIGITS
        self._forms = [_Form(form, self._width) for form in forms]

    def header(self, about: dict) -> bytes:
        """The first line, with the content for INFO."""
        return f"{HEADER}{json.dumps(about, separators=(',', ':'))}\n".encode()

    def text(self, part: Events) -> bytes:
        moves, releases = self._calls, self._calls + 1
        nothing = releases + self._calls
        released = np.where(part.size_bytes > 0, nothing + 1, releases) + part.call
        form = np.where(part.kind == ACQUIRE, part.call, released)
        form[part.kind == MOVE] = moves
        form[part.kind == NOTHING] = nothing
        sizes = np.where(part.kind == RELEASE, part.size_bytes - 1, part.size_bytes)
        values = {"#": part.thread, "S": sizes, "P": part.place, "Q": part.to}
        values["T"] = np.arange(self._count, self._count + len(part))
        self._count += len(part)
        page = np.empty((len(part), self._width + 1), np.uint8)
        for number in np.flatnonzero(np.bincount(form)):
            rows = np.flatnonzero(form == number)
            page[rows] = self._forms[number].lines(len(rows), {sign: column[rows] for sign, column in values.items()})
        return page.tobytes()
