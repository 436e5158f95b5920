# SPDX-License-Identifier: MIT
"""`heaptape.open`: a trace with a method for its profile."""

from pathlib import Path

from heaptape.profile.data import Profile, profile
from heaptape.tape import trace as tape


class Trace(tape.Trace):
    """An open trace: see `heaptape.tape.trace.Trace`, whose methods it has."""

    def profile(self) -> Profile:
        """The profile of the whole trace, counted by the C program: `heaptape.profile`."""
        return profile(self.path)


def open_trace(path: str | Path) -> Trace:
    """Opens a trace: walks and checks all block headers, reads info and footer. Events are only decoded on demand.

    Raises FormatError (path, offset, what) for a malformed file, OSError if it can't be read.

    >>> import heaptape
    >>> with heaptape.open("small.tape") as trace:
    ...     print(trace.threads, trace.event_count, sum(batch.num_rows for batch in trace.events()))
    ...     frame = next(trace.frames(thread=0))
    2 6666 6666
    >>> frame["call"].iloc[0], int(frame["request_bytes"].iloc[0])
    ('malloc', 16)
    """
    return Trace(path)
