# SPDX-License-Identifier: MIT
"""A command's input files."""

import os
import stat
from pathlib import Path

from heaptape.common.errors import HeaptapeError


def file_bytes(path: str | Path) -> bytes:
    """What a file or pipe holds. Raises OSError; HeaptapeError for a device, which may have no end."""
    with Path(path).open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise HeaptapeError(f"{path}: is a device, not a file")
        return file.read()
