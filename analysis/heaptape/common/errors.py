# SPDX-License-Identifier: MIT
"""Errors that the user can act on. Any other exception is a bug and shows a traceback."""

from collections.abc import Iterable


class HeaptapeError(Exception):
    """One clear line, without the program's name."""


class UsageError(HeaptapeError):
    """Wrong use of the command line: exit status 2."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns ": did you mean 'x'?" with the nearest known word, "" if none is near."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f": did you mean '{near[0]}'?" if near else ""


def unknown(
    what: str, name: str, known: Iterable[str], among: str = "there are", more: str = "", of: str = ""
) -> UsageError:
    """The error for a name that is not known: with the nearest one, else with all, after the words `among`. `more`:
    what else would be right; `of`: words after the name.
    """
    names = list(known)
    rest = f": {among} {', '.join(names)}{more}"
    near = did_you_mean(name, names)
    return UsageError(f"unknown {what} '{name}'{of}{near or rest}")


class FormatError(HeaptapeError, ValueError):
    """A malformed file: which file, at which byte, what is wrong. `offset` is None where there is no single place."""

    def __init__(self, path: str, offset: int | None, what: str) -> None:
        self.path, self.offset, self.what = path, offset, what
        where = path if offset is None else f"{path}: offset {offset}"
        super().__init__(f"{where}: {what}")

    def __reduce__(self) -> tuple:
        """For pickling between processes: the constructor's arguments differ from the message."""
        return FormatError, (self.path, self.offset, self.what)
