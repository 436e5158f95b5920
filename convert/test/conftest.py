# SPDX-License-Identifier: MIT
"""Commands of heaptape-convert are forked by a server (tests/convert_server.py)."""

from collections.abc import Iterator

import pytest

from tests import convert_server


@pytest.fixture(autouse=True)
def served() -> Iterator[None]:
    convert_server.enabled = True
    yield
    convert_server.enabled = False
