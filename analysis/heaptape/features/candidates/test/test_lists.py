# SPDX-License-Identifier: MIT
"""What the command prints as JSON has its published shape."""

import os

import pytest
from jsonschema import Draft202012Validator

from tests.output_shapes import schemas
from tests.support import HEAPTAPE_HERE, published, succeed


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("allocators-list", ["list"]),
        ("allocators-of", ["--of", os.getpid()]),
        ("allocators-tunables", ["--tunables", "reference"]),
        ("allocators-variants", ["--variants", "jemalloc"]),
    ],
)
def test_a_list_has_its_shape_in_both_forms(name, options):
    output = published(name, succeed(HEAPTAPE_HERE, "allocators", *options, "--json").stdout)
    Draft202012Validator(schemas()[name]).validate(output)
