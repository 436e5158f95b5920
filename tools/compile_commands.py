#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The output of `make --dry-run` as a compilation database (clang's JSON format): `make compile_commands.json`."""

import json
import re
import sys
from pathlib import Path

COMPILES = re.compile(r"^\S.* -c -o \S+ (\S+\.c)$")


def main() -> None:
    lines = (line.strip() for line in sys.stdin)
    found: dict[str, str] = {}
    for line in lines:
        if match := COMPILES.match(line):
            found.setdefault(match[1], line)  # the plain build comes first, those with sanitizers later
    entries = [{"directory": str(Path.cwd()), "file": name, "command": found[name]} for name in sorted(found)]
    json.dump(entries, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
