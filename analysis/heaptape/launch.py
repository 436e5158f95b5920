# SPDX-License-Identifier: MIT
"""Entry of bin/heaptape: its first argument is the directory above bin/."""

import sys
from pathlib import Path

from heaptape.commands.main import main
from heaptape.common.home import Home

if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], Home(Path(sys.argv[1]))))
