# SPDX-License-Identifier: MIT
"""The shapes of JSON: the published shapes are those of the code, and commands print them. Outputs that take long
to make are checked in their own tests: `tests.support.published`.
"""

import json

import msgspec
import pytest
from heaptape.results.structs import json_schema
from jsonschema import Draft202012Validator

from tests.output_shapes import OUTPUTS, conforms, schemas, write
from tests.support import CONVERT, HEAPTAPE_HERE, published, succeed


def test_the_published_schemas_are_those_of_the_code(tmp_path):
    write(tmp_path)
    assert {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()} == {
        f"{name}.schema.json": schema for name, schema in (schemas() | {"results": json_schema()}).items()
    }


@pytest.mark.parametrize("name", OUTPUTS)
def test_each_names_the_version_of_its_shape(name):
    """As a number, so that a reader can recognise a file of another version by the schema alone."""
    whole = schemas()[name]
    shapes = [whole["$defs"][one["$ref"].rpartition("/")[2]] for one in whole.get("oneOf", [whole])]
    version = 6 if name == "machine" else 1
    assert [shape["properties"]["schema"]["enum"] for shape in shapes] == [[version]] * len(shapes)


def test_a_list_has_its_shape_in_both_forms():
    pytest.importorskip("heaptape.features.workloads")
    output = published("workloads", succeed(HEAPTAPE_HERE, "workloads", "--json").stdout)
    Draft202012Validator(schemas()["workloads"]).validate(output)


def test_info_and_check_of_a_workload_have_separate_shapes(small_tape, tmp_path):
    work = tmp_path / "small.work"
    succeed(CONVERT, "compile", small_tape, "-o", work)
    for command in ("info", "check"):
        output = published(command, succeed(CONVERT, command, work, "--json").stdout)
        Draft202012Validator(schemas()[command]).validate(output)


@pytest.mark.parametrize("change", [{"new_key": 1}, {"ok": "yes"}, {"events": -1}])
def test_a_key_that_is_not_published_or_of_another_type_is_found(small_tape, change):
    output = published("check", succeed(CONVERT, "check", small_tape, "--json").stdout)
    with pytest.raises(msgspec.ValidationError):
        conforms("check", json.dumps(output | change).encode())
