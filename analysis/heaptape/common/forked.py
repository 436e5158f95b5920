# SPDX-License-Identifier: MIT
"""Work divided into pieces, done by as many processes as there are processors.

Forked, not spawned: the input of a piece (hundreds of MiB of results) is in memory already, and only its result is
sent back. Not a ProcessPoolExecutor, whose workers outlive a parent that is killed. Here each worker ends after its
share at the latest, or when the parent's end of its pipe is closed.
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
    """Yields work(0), ..., work(count - 1), each as soon as it and all before it are done.

    An exception of a piece is raised here in its place, and the other processes are stopped; so they are when the
    iterator is closed. Raises HeaptapeError if a process is lost. Without a second processor or piece, all work is done
    in this process. `most`: the largest number of processes; by default one for each processor.

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
            theirs.close()  # else we would never see the end of the pipe
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
    # Ctrl-C reaches the whole group, but the parent stops us; and we must not remove its files.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in others:
        end.close()
    gc.freeze()  # a collection that searched the parent's objects would copy their pages
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
