# SPDX-License-Identifier: MIT
"""The shape of each command's JSON, and its JSON Schema. R.json's are in heaptape.results.structs.

`python -m heaptape.show.outputs.published FOLDER` writes the schemas, and that of R.json.
"""

import json
import sys
from pathlib import Path

import msgspec

from heaptape.results.structs import json_schema
from heaptape.show.outputs import decisions, lists, traces

OUTPUTS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "advise": (decisions.Advice,),
    "allocators": (lists.Allocators,),
    "allocators-list": (lists.Candidates,),
    "allocators-of": (lists.InUse,),
    "allocators-tunables": (lists.Tunables,),
    "allocators-variants": (lists.Variants,),
    "bisect": (decisions.Bisected,),
    "blame": (decisions.Blame,),
    "check": (traces.Check, traces.WorkloadCheck),
    "compare": (decisions.Compared,),
    "ctl": (traces.Control,),
    "distil": (decisions.Distilled,),
    "fleet-choose": (decisions.Chosen,),
    "fleet-ingest": (decisions.Ingested,),
    "fleet-status": (decisions.FleetStatus,),
    "gate": (decisions.Gate,),
    "info": (traces.Info, traces.WorkloadInfo),
    "machine": (lists.Machine,),
    "minimise": (decisions.Minimised,),
    "observe": (lists.Observation, lists.Simulation),
    "profile": (traces.Profile,),
    "pytest": (lists.Tests,),
    "top": (traces.Top, traces.TopOfFile),
    "tune": (decisions.Tuned,),
    "workloads": (lists.Workloads,),
}


def schemas() -> dict[str, dict]:
    found = {}
    for name, shapes in OUTPUTS.items():
        one, parts = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
        whole = one[0] if len(one) == 1 else {"oneOf": list(one)}
        found[name] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, "$defs": parts}
    return found


def conforms(name: str, data: bytes) -> None:
    """Raises msgspec.ValidationError, for the last shape, if the JSON has none of the shapes of that output."""
    shapes = OUTPUTS[name]
    for shape in shapes[:-1]:
        try:
            msgspec.json.decode(data, type=shape)
        except msgspec.ValidationError:
            continue
        return
    msgspec.json.decode(data, type=shapes[-1])


def write(folder: Path) -> None:
    """Writes NAME.schema.json for each output, and for R.json, into the folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in (schemas() | {"results": json_schema()}).items():
        folder.joinpath(f"{name}.schema.json").write_text(json.dumps(schema, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
