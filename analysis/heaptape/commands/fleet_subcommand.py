# SPDX-License-Identifier: MIT
"""`heaptape fleet`, whose commands are in separate modules; this is what each of them has."""

import argparse
from collections.abc import Callable
from typing import NamedTuple


class Subcommand(NamedTuple):
    """A command of `heaptape fleet`: what the module of another command has as its names."""

    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
