# SPDX-License-Identifier: MIT
"""Errors that the user can act on. Any other exception is a bug and shows a traceback."""


class HeaptapeError(Exception):
    """One clear line, without the program's name."""


class UsageError(HeaptapeError):
    """Wrong use of the command line: exit status 2."""


class FormatError(HeaptapeError, ValueError):
    """A malformed file: which file, at which byte, what is wrong. `offset` is None where there is no single place."""

    def __init__(self, path: str, offset: int | None, what: str) -> None:
        self.path, self.offset, self.what = path, offset, what
        where = path if offset is None else f"{path}: offset {offset}"
        super().__init__(f"{where}: {what}")

    def __reduce__(self) -> tuple:
        """For pickling between processes: the constructor's arguments differ from the message."""
        return FormatError, (self.path, self.offset, self.what)
