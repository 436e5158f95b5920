# SPDX-License-Identifier: MIT
"""The entry point `pytest11`: options, the marker, and the choice of which half of the work this process does.

`pytest --heaptape` starts itself again under the recorder (recorded_run.py); that process, or its xdist workers,
measure each test (measuring.py). Every run of pytest where heaptape is installed imports this file, so it imports as
little as possible.
"""

import os

import pytest

from heaptape.features.pytest_plugin import RECORDED, STANDARD_ERROR

MARKER = (
    "heap(peak=None, growth=None, allocations=None, warm_up=None): limits of what a test acquires, by --heaptape: the "
    'most live bytes and the growth (bytes, or text: "20 MiB"), calls that acquire; runs before the one that counts'
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options. In a recorded run, restores the user's standard error before anything is captured."""
    group = parser.getgroup("heaptape", "memory of each test, from a recording of the run")
    group.addoption("--heaptape", action="store_true", help="record the run; report tests' acquires, enforce limits")
    group.addoption("--heaptape-json", metavar="FILE", help="with --heaptape: write each test's figures to FILE")
    group.addoption(
        "--heaptape-top", metavar="N", type=int, default=10, help="how many tests to list, those with the highest peaks"
    )
    group.addoption(
        "--heaptape-warm-up", metavar="N", type=int, default=0, help="run each test N times before the run that counts"
    )
    group.addoption(
        "--heaptape-sites",
        choices=("lines", "stacks", "none"),
        default="lines",
        help="where a test above its limit acquired: Python lines, from a second run of it (default), or C call stacks",
    )
    group.addoption(
        "--heaptape-tape", metavar="F.tape", help="keep the recording; default: in a folder that is removed"
    )
    if STANDARD_ERROR in os.environ:
        descriptor = int(os.environ.pop(STANDARD_ERROR))
        os.dup2(descriptor, 2)
        os.close(descriptor)


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker; in a recorded run, starts measuring."""
    config.addinivalue_line("markers", MARKER)
    if config.getoption("heaptape") and RECORDED in os.environ:
        from heaptape.features.pytest_plugin import measuring

        measuring.begin(config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Runs a recorded pytest in place of this one, and returns its exit status."""
    option = config.option
    asks = option.help or option.version or option.collectonly or getattr(option, "showfixtures", False)
    if not option.heaptape or asks or option.markers or RECORDED in os.environ or hasattr(config, "workerinput"):
        return None
    if pytest.version_tuple < (8,):
        raise pytest.UsageError(f"--heaptape: needs pytest 8 or later, and this is {pytest.__version__}")
    from heaptape.features.pytest_plugin import recorded_run

    return recorded_run.run(config)
