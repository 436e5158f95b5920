# SPDX-License-Identifier: MIT
"""`heaptape fleet`, whose commands are in modules of their own; this is what each of them has."""

import argparse
from collections.abc import Callable
from typing import NamedTuple


class Subcommand(NamedTuple):
    """A command within the command: what a module of a command has as its own names."""

    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
