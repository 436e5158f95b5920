"""Work on several replays at once: as many threads as there are processors, as the work is done by other processes.

Exact figures don't mind company: they are counts of one process. Who is interrupted stops the engines too: each piece
of work is given `tell`, which it calls as its replays go on, and which raises StoppedError.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")
Tell = Callable[[float], None]


class StoppedError(Exception):
    """The work is not wanted any more."""


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def in_order(
    work: Callable[[Item, Tell], Made], items: Iterable[Item], jobs: int, ahead: int | None = None
) -> Generator[Made]:
    """What `work(item, tell)` makes of each item, in their order. At most `jobs` are under way, and at most `ahead`
    (default: `jobs`) items are taken before what was made of the first of them is. Closing the iterator stops what is
    under way. What one raises is raised in its turn.
    """
    stop = threading.Event()

    def tell(share: float) -> None:
        if stop.is_set():
            raise StoppedError

    waiting: list[Future[Made]] = []
    left = iter(items)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                waiting += [pool.submit(work, item, tell) for item in islice(left, (ahead or jobs) - len(waiting))]
                if not waiting:
                    return
                made = waiting[0].result()
                del waiting[0]
                yield made
        finally:
            stop.set()
            for future in waiting:
                future.cancel()
