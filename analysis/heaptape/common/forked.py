# SPDX-License-Identifier: MIT
"""Work that is done piece by piece, by as many processes as there are processors.

Forked, not spawned: what a piece needs (hundreds of MiB of results) is there already, and only what it makes comes
back. Not a ProcessPoolExecutor: its workers outlive a parent that is killed. Here each ends after its share at the
latest, and with the parent's end of its pipe.
"""

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

from heaptape.common.errors import HeaptapeError
from heaptape.common.processors import processors

Made = TypeVar("Made")


def in_order(work: Callable[[int], Made], count: int, most: int | None = None) -> Iterator[Made]:
    """work(0), ..., work(count - 1), each as soon as it and those before it are done.

    What one raises is raised here in its turn, and the others are stopped; they are, too, where the iterator is closed.
    Raises HeaptapeError if a process is lost. Without a second processor, or piece, all is done in this process.
    `most`: so many processes, instead of as many as there are processors.

    >>> list(in_order(lambda n: n * n, 3))
    [0, 1, 4]
    """
    workers = min(count, most or processors())
    if workers < 2:
        yield from map(work, range(count))
        return
    fork = multiprocessing.get_context("fork")
    processes = []
    ends: list[Connection] = []
    try:
        for first in range(workers):
            ours, theirs = fork.Pipe(duplex=False)
            share = range(first, count, workers)
            process = fork.Process(target=_work, args=(work, share, theirs, [*ends, ours]), daemon=True)
            process.start()
            theirs.close()  # else its end would never be seen
            processes.append(process)
            ends.append(ours)
        for index in range(count):
            try:
                fine, made = ends[index % workers].recv()
            except EOFError:
                raise HeaptapeError("a process of ours was ended from outside, or found no memory") from None
            if not fine:
                raise made
            yield made
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.terminate()
            process.join()


def _work(work: Callable[[int], object], share: range, pipe: Connection, others: list[Connection]) -> None:
    # Ctrl-C reaches the whole group, but to stop us is the parent's job; nor are we to remove its files.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in others:
        end.close()
    gc.freeze()  # what was there before is not ours to search: that would copy it
    for index in share:
        try:
            outcome = (True, work(index))
        except Exception as error:
            outcome = (False, error)
        try:
            pipe.send(outcome)
        except BrokenPipeError:
            return
        if not outcome[0]:
            return
