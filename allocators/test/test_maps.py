# SPDX-License-Identifier: MIT
"""The maps in malloc.c, with which a reader follows a call, name functions in their files."""

import re

import pytest

from tests.support import REPOSITORY

ALLOCATORS = REPOSITORY / "allocators"
MAPS = sorted(ALLOCATORS.glob("*/malloc.c"))


@pytest.mark.parametrize("path", MAPS, ids=lambda path: path.parent.name)
def test_each_step_of_the_map_is_a_function_of_the_file_that_it_names(path):
    comments = re.findall(r"^/\*.*?\*/", path.read_text(), re.MULTILINE | re.DOTALL)
    maps = [re.findall(r"^ {5,7}(\w+)(?: \((\S+\.[ch])\)$| {2,})", comment, re.MULTILINE) for comment in comments]
    maps = [steps for steps in maps if steps]
    assert len(maps) == 2
    assert all(len(steps) >= 4 for steps in maps), maps
    for name, file in (step for steps in maps for step in steps):
        sources = [path.parent / file] if file else sorted(path.parent.rglob("*.[ch]"))
        definition = re.compile(rf"^(?:\w.*[ *])?(?:allocator_)?{name}\(", re.MULTILINE)
        assert any(definition.search(source.read_text()) for source in sources), (name, file)
