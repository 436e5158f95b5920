# SPDX-License-Identifier: MIT
"""A folder for what a command needs while it runs."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch_folder(below: Path | None = None, prefix: str = "heaptape.") -> Iterator[Path]:
    """A new folder, in TMPDIR or `below`, removed at the end, even after an interrupt: its name is known before it is
    made. (Python's tempfile leaves the folder if an interrupt comes before it has stored the name.) Raises OSError.
    """
    import base64  # here, as every command imports this module, and few need a folder
    import shutil
    import tempfile

    name = base64.b32encode(os.urandom(5)).decode().lower()  # 8 characters, as tempfile's names have
    folder = Path(below or tempfile.gettempdir()) / f"{prefix}{name}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except BaseException:  # an interrupt during the removal
            shutil.rmtree(folder, ignore_errors=True)
            raise
