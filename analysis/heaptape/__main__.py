# SPDX-License-Identifier: MIT
"""`python -m heaptape`, and pip's script: for installations without the launcher."""

import sys

from heaptape.commands.main import main
from heaptape.common.home import default_home


def run() -> int:
    """Runs the command and returns its exit status."""
    return main(sys.argv[1:], default_home())


if __name__ == "__main__":
    sys.exit(run())
