# SPDX-License-Identifier: MIT
"""A command within a command: `heaptape fleet NAME`."""

import argparse
from collections.abc import Callable
from typing import NamedTuple


class Subcommand(NamedTuple):
    """What a module of a command has as its own names."""

    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
