# SPDX-License-Identifier: MIT
"""The maps at the top of malloc.c and free.c, with which a reader follows a call, name functions in their files."""

import re

import pytest

from tests.support import REPOSITORY

ALLOCATORS = REPOSITORY / "allocators"
MAPS = [path for path in sorted(ALLOCATORS.glob("*/*.c")) if path.name in ("malloc.c", "free.c")]


@pytest.mark.parametrize("path", MAPS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_each_step_of_the_map_is_a_function_of_the_file_that_it_names(path):
    head = path.read_text().split("*/")[1]  # behind the licence
    steps = re.findall(r"^ {5,7}(\w+)(?: \((\S+\.[ch])\)$| {2,})", head, re.MULTILINE)
    assert len(steps) >= 4, head
    for name, file in steps:
        sources = [path.parent / file] if file else sorted(path.parent.rglob("*.[ch]"))
        definition = re.compile(rf"^(?:\w.*[ *])?(?:allocator_)?{name}\(", re.MULTILINE)
        assert any(definition.search(source.read_text()) for source in sources), (name, file)
