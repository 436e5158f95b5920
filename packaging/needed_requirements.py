# SPDX-License-Identifier: MIT
"""needed_requirements.py EXTRA...: prints the part of requirements.lock that heaptape with these extras needs.

The lock pins all extras; pip-compile's comments say which package each is there for.
"""

import re
import sys
import tomllib
from pathlib import Path

ENTRY = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?:.*\n)(?:^[ ].*\n)*", re.MULTILINE)
FOR = re.compile(r"^ +# (?:via |  )([A-Za-z0-9._-]+)", re.MULTILINE)


def name(requirement: str) -> str:
    """The normalised name of a package."""
    return re.sub(r"[-_.]+", "-", re.split(r"[ \[<>=~!;]", requirement)[0]).lower()


def needed(project: dict, lock: str, extras: list[str]) -> list[str]:
    """The entries of the lock, in its order."""
    wanted = {name(one) for one in project["dependencies"]}
    wanted |= {name(one) for extra in extras for one in project["optional-dependencies"][extra]}
    found = list(ENTRY.finditer(lock))
    entries = {name(one[1]): (one[0], {name(user) for user in FOR.findall(one[0])}) for one in found}
    while more := {one for one, (_, users) in entries.items() if users & wanted} - wanted:
        wanted |= more
    return [text for one, (text, _) in entries.items() if one in wanted]


if __name__ == "__main__":
    described = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    print("".join(needed(described, Path("requirements.lock").read_text(), sys.argv[1:])), end="")
