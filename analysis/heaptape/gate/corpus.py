# SPDX-License-Identifier: MIT
"""The tapes and workloads that the command line names: files, and folders of them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from heaptape.common.errors import HeaptapeError

ENDINGS = (".tape", ".work", ".zip")  # used from a folder; a file that is named may be of any format


def find(names: Iterable[str]) -> dict[str, Path]:
    """name -> file, in the order given, each file once. Raises HeaptapeError where there is no such file, or a folder
    contains none.
    """
    files: list[Path] = []
    for name in names:
        path = Path(name)
        if not name or not path.exists():  # Path("") is the current folder
            raise HeaptapeError(f"{name or repr(name)}: no such file or folder")
        inside = sorted(one for one in path.rglob("*") if one.suffix in ENDINGS and one.is_file())
        if path.is_dir() and not inside:
            raise HeaptapeError(f"{name}: no {', '.join(ENDINGS)} files in it")
        files += inside if path.is_dir() else [path]
    files = list({file.resolve(): file for file in files}.values())
    often = Counter(file.stem for file in files)
    return {file.stem if often[file.stem] == 1 else str(file): file for file in files}
