# SPDX-License-Identifier: MIT
"""wheel_project PYPROJECT STAGE: prints the wheel's pyproject.toml, with every file of STAGE that it has to hold.

The extra `allocators` is the wheel of packaging/wheel_allocators, of the same version.
"""

import re
import sys
from pathlib import Path

from heaptape.common.version import __version__


def main(project: str, stage: Path) -> None:
    """Prints the checkout's pyproject.toml with the files under prefix/ and share/, and the licences."""
    text = re.sub(r"\n\[tool\.(ruff|mypy|pytest).*", "\n", project, flags=re.DOTALL)
    licences = sorted(path.name for path in stage.iterdir() if path.name.startswith(("LICENSE", "NOTICE")))
    tool = " AND GPL-2.0-only" if "LICENSE.valgrind-tool" in licences else ""
    text = text.replace(
        'license = { text = "MIT" }',
        f'license = "MIT{tool}"\nlicense-files = {licences!r}',
    )
    # The stage has what a checkout lacks: setuptools makes the wheel of it.
    backend = 'requires = ["setuptools>=68"]\nbuild-backend = "setuptools.build_meta"\n'
    text = re.sub(r"(\[build-system\]\n).*?\n(?=\n)", lambda found: found[1] + backend, text, flags=re.DOTALL)
    extras = "[project.optional-dependencies]\n"
    text = text.replace(
        extras, f"{extras}allocators = [\"heaptape-allocators=={__version__}; platform_machine == 'x86_64'\"]\n"
    )
    text = text.replace('heaptape = ["py.typed"]', 'heaptape = ["py.typed", "prefix/**"]')
    folders: dict[str, list[str]] = {}
    for path in sorted((stage / "share").rglob("*")):
        if path.is_file():
            folders.setdefault(str(path.parent.relative_to(stage)), []).append(str(path.relative_to(stage)))
    print(text + "\n[tool.setuptools.data-files]")
    for folder, files in folders.items():
        print(f"{folder!r} = {files!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_text(), Path(sys.argv[2]))
