# SPDX-License-Identifier: MIT
"""`python -m heaptape`, and pip's script: for installations without the launcher."""

import sys

from heaptape.commands.main import main
from heaptape.common.home import PACKAGE, default_home


def run() -> int:
    """Runs the command and returns its exit status."""
    if not PACKAGE.is_dir():
        sys.exit(f"heaptape: {PACKAGE.parent} is an archive, and heaptape's programs must be files: install it by pip")
    return main(sys.argv[1:], default_home())


if __name__ == "__main__":
    sys.exit(run())
