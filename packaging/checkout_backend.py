# SPDX-License-Identifier: MIT
"""The build backend of a checkout: refuses, because pip would install heaptape without its programs in C.

`make wheel` makes the whole package, with setuptools (packaging/wheel_project.py).
"""

import sys


def _refuse(*_arguments: object, **_options: object) -> None:
    sys.exit(
        "heaptape: pip can't build the programs in C; this works: make wheel && pip install out/wheel/heaptape-*.whl"
    )


get_requires_for_build_wheel = get_requires_for_build_editable = get_requires_for_build_sdist = _refuse
build_wheel = build_editable = build_sdist = _refuse
