# SPDX-License-Identifier: MIT
"""The shape of each command's JSON, and its JSON Schema. R.json's are in heaptape.results.structs, those of features in
`test/shapes.py` of their folders.

`python -m tests.output_shapes FOLDER` writes the schemas, and that of R.json.

An unknown key is an error, so that a key can't be added without being published. `schema` grows when a key is removed
or changes its meaning, but not for a new key. Null is a value: not known.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import heaptape.features
import msgspec
from heaptape.results.structs import ResultsFile, json_schema

from tests.shapes import SAID, Count, Figures, Output, Witness, maybe, shape

# fmt: off
Machine = shape("Machine",
    "`heaptape machine --json`: costs here, ns, with quantiles over the rounds (docs/methods/TIME_MODEL.md).",
    {"schema": Literal[6], "rounds independent_chains line_bytes cores created_unix_s": Count,
     "tlbs working_sets os_page_sets": list[dict[str, Any]], "code strings kernel geometry": dict[str, Any],
     "loading": maybe(dict[str, Any]),
     "cpu kernel_release": str, "load_before": list[float]})
Observed = shape("Observed",
    "A program that ran. Rows of `timeline`: time, CPU time (ns), RssAnon, VmSize (bytes). `peaks`: how they are "
    "known; memory is missing with --no-memory.",
    {"name file": str, "pid time_ns cpu_ns page_faults": Count, "exited": bool,
     "peaks": maybe(Literal["exact", "sampled"]), "rss_anon_peak_bytes vm_size_peak_bytes vm_hwm_bytes": maybe(Count),
     "syscalls": maybe(dict[str, Count]), "timeline": maybe(list[list[int]])})
Simulation = shape("Simulation", msgspec.Struct,
    "`heaptape observe --simulate --format json`: counts of the allocator's calls and of the program. Further keys "
    "are those of a run's simulation (docs/formats/RESULTS.md); `children`: other processes.",
    {"schema": Literal[1], "instructions": Count, "allocator program": dict[str, Any], "caches": list[dict[str, Any]],
     "children": maybe(list[dict[str, Any]])})
Observation = shape("Observation", Output,
    "`heaptape observe --format json`. `status`: the command's exit status. With --time-only, of all programs: "
    "CPU time in the kernel, and the processor's counters in user space, as of a run (docs/formats/RESULTS.md).",
    {"status": int, "notified": bool, "programs_lost": Count, "programs": list[Observed], "system_ns": maybe(Count),
     "counters": maybe(dict[str, Count]), "counters_share": maybe(dict[str, float]),
     "counters_missing_because": maybe(str)})
Comparison = shape("Comparison",
    "A metric of a workload on an allocator. `percent`: of the baseline's, with its interval; `supported`: by more "
    "than chance, by `reason`; `exact`: the same in every run.",
    {"workload allocator metric": str, "unit reason": str | None, "value percent low high": float | None,
     "repetitions": Count | None, "supported exact": bool | None})
Compared = shape("Compared", Output,
    "`heaptape compare --format json`. `rows`: the whole comparison, a row for each workload, allocator and metric; "
    "`tables`, with --table: rows of each table by its name. `level`: of the intervals.",
    {"level": float, "baseline interval": maybe(str), "corners": maybe(dict[str, str]), "rows": maybe(list[Comparison]),
     "tables": maybe(dict[str, list[dict[str, Any]]]), "about": maybe(str),
     "sentences caveats next": maybe(list[str])})
Corner = shape("Corner", "A figure of a workload: percent of the first corner, or one corner against another.",
    {"figure workload column": str, "value low high": float | None, "repetitions": Count | None,
     "supported": bool | None, "reason": str | None})
Corners = shape("Corners", Output, "`heaptape compare --corners --json`. `corners`: their allocators.",
    {"level": float, "corners": dict[str, str], "rows": list[Corner]})
Pick = shape("Pick",
    "The advice for an aim. `stay`: keep today's allocator; `ties`: equally good ones; `rivals`: that may be better; "
    "`environment`: what to set.",
    {"aim use why": str, "stay": bool, "ties": list[str], "rivals": list[str], "environment": dict[str, str]})
Tried = shape("Tried",
    "A candidate, replayed. Bytes are the whole program's; `figures`: the allocator's alone. CPU time is against "
    "today's, in ns and, if the program's own time is known, in percent of it. `cpu_chance`: that it is faster. "
    "`smallest_limit_bytes`: memory limit under which the program runs.",
    {"label allocator variant path": str, "error": maybe(str),
     "peak_bytes mean_bytes smallest_limit_bytes": maybe(Count), "figures": maybe(Figures),
     "cpu_ns cpu_low_ns cpu_high_ns cpu_percent cpu_low_percent cpu_high_percent cpu_chance": maybe(float),
     "cpu_from": maybe(Literal["calls", "accesses", "live"]), "cpu_steps": maybe(list[dict[str, Any]])})
Advice = shape("Advice", Output,
    "`heaptape advise --json`. `refused`: allocator -> the broken rule; `live`: what --live found.",
    {"workload": dict[str, Any], "today pick": str, "environment refused": dict[str, str], "picks": list[Pick],
     "candidates": list[Tried], "live": list[dict[str, Any]]} | SAID)
Check = shape("Check", Witness,
    "`heaptape check --json` of a trace: the proof of its history (docs/methods/CHECK.md). Counts, bytes.",
    {"schema": Literal[1]})
WorkloadCheck = shape("WorkloadCheck", Output, "`heaptape check --json` of a workload (.work).",
    {"ok": bool, "events ops words waits starts threads slots live_at_end peak_live_bytes peak_live_objects": Count})
Recorded = shape("Recorded",
    "Samples of the recorded process; the last values are the kernel's own counts. Bytes, ns.",
    {"samples": Count,
     "rss_anon_peak_bytes vm_size_peak_bytes vm_hwm_bytes minor_faults major_faults user_ns system_ns": maybe(Count)})
Mark = shape("Mark", "A mark that the program set, after `events` events of its thread.",
    {"thread events": Count, "text": str, "time_ns": maybe(Count)})
About = shape("About", Output, "The common keys of a trace and a workload.",
    {"events threads file_bytes peak_live_bytes peak_live_os_page_bytes peak_live_objects live_at_end": Count,
     "bytes_per_event": maybe(float), "recorded": Recorded,
     "info": dict[str, Any]} | SAID)
Info = shape("Info", About,
    "`heaptape info --json` of a trace. `info`, `footer`: the trace's own (core/trace/FORMAT.md); `calls`: by name.",
    {"kind": Literal["trace"], "calls": dict[str, Count], "dropped": Count, "truncated ok": bool,
     "truncated_at duration_ns stack_nodes": maybe(Count), "witness": Witness, "marks": list[Mark],
     "columns": maybe(list[Literal["latency", "usable", "stacks"]]), "accesses": maybe(dict[str, Count]),
     "thread_names": maybe(dict[str, str]), "footer": maybe(dict[str, Any])})
WorkloadInfo = shape("WorkloadInfo", About,
    "`heaptape info --json` of a workload (.work). `info`: its own (core/workload/WORKLOAD.md).",
    {"kind": Literal["workload"], "ops words slots peak_position": Count, "calls": maybe(dict[str, Count]),
     "dropped": maybe(Count), "truncated": maybe(bool)})
RecordedProcess = shape("RecordedProcess", "A process that is being recorded.",
    {"pid events threads dropped file_bytes": Count, "trace": str,
     "state": Literal["recording", "between bursts", "stopped", "not started", "given up"]})
Control = shape("Control", Output, "`heaptape ctl --json`: the state of the recording after the command.",
    {"ok": bool, "recorder recorded": Count, "state": Literal["recording", "stopped", "not started", "ended"],
     "processes": list[RecordedProcess], "burst_asked_for": maybe(bool)})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "advise": (Advice,),
    "check": (Check, WorkloadCheck),
    "compare": (Compared, Corners),
    "ctl": (Control,),
    "info": (Info, WorkloadInfo),
    "machine": (Machine,),
    "observe": (Observation, Simulation),
}
for _name in heaptape.features.having("test/shapes"):
    OUTPUTS |= import_module(f"heaptape.features.{_name}.test.shapes").OUTPUTS


def schemas() -> dict[str, dict]:
    found = {}
    for name, shapes in OUTPUTS.items():
        one, parts = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
        whole = one[0] if len(one) == 1 else {"oneOf": list(one)}
        found[name] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, "$defs": parts}
    return found


OF_LISTS = {
    "allocators": ("list", "of", "tunables", "variants"),
    "fleet": ("status", "atlas"),
    "workloads": ("capture",),
}


def output_of(command: str, *words: str) -> str:
    """The output that this command line prints with --json: a key of OUTPUTS, or "results"."""
    if command in ("replay", "whatif"):
        return "results"
    given = [word.removeprefix("--") for word in words]
    return next((f"{command}-{name}" for name in OF_LISTS.get(command, ()) if name in given), command)


def conforms(name: str, data: bytes) -> None:
    """Raises msgspec.ValidationError, for the last shape, if the JSON has none of the shapes of that output."""
    shapes = OUTPUTS[name] if name != "results" else (ResultsFile,)
    for one in shapes[:-1]:
        try:
            msgspec.json.decode(data, type=one)
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
