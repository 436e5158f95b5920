"""Work that waits for engines, several at a time: runs of passes that count, and so don't disturb each other."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from heaptape.common.errors import HeaptapeError

Made = TypeVar("Made")
Tell = Callable[[float], None]
LOOK_S = 0.2  # how often progress is told


class _StoppedError(Exception):
    """Another's failure, or the user, ended the work."""


def side_by_side(
    jobs: Sequence[Callable[[Tell], Made]], on_progress: Callable[[float], None] = lambda share: None
) -> list[Made | HeaptapeError]:
    """What each job makes, in their order, or the HeaptapeError that it raised. As many run at a time as there are
    processors. Each is given a function that hears its progress, 0 to 1; `on_progress`: that of all.

    Threads, as the jobs wait for engines. Whatever else is raised, here or by a job, stops the others: the function
    that hears their progress raises, by which Bench.run ends its engine.
    """
    stopped = threading.Event()
    shares = [0.0] * len(jobs)

    def one(number: int) -> Made | HeaptapeError:
        def tell(share: float) -> None:
            if stopped.is_set():
                raise _StoppedError
            shares[number] = share

        try:
            tell(0.0)
            return jobs[number](tell)
        except HeaptapeError as error:
            return error
        finally:
            shares[number] = 1.0

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            futures = [pool.submit(one, number) for number in range(len(jobs))]
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, LOOK_S)
                for future in done:
                    future.result()
                on_progress(sum(shares) / len(jobs))
            return [future.result() for future in futures]
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
