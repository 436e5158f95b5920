# SPDX-License-Identifier: MIT
"""The shape of each command's JSON, and its JSON Schema. R.json's are in heaptape.results.structs.

`python -m tests.output_shapes FOLDER` writes the schemas, and that of R.json.

An unknown key is an error, so that a key can't be added without being published. `schema` grows when a key is removed
or changes its meaning, but not for a new key. Null is a value: not known.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from heaptape.features.fleet.store import FleetStatus
from heaptape.results.structs import json_schema
from msgspec import UNSET, UnsetType

Count = Annotated[int, msgspec.Meta(ge=0)]


def maybe(kind: Any) -> Any:  # noqa: ANN401
    """The kind of a key that may be missing."""
    return kind | UnsetType


def shape(name: str, *about: Any) -> Any:  # noqa: ANN401
    """An object of an output: its base (none: it is a part), what it is, and the kind of each of its keys."""
    *base, doc, kinds = about
    fields = [(key, kind, UNSET) if UnsetType in getattr(kind, "__args__", ()) else (key, kind)
              for keys, kind in kinds.items() for key in keys.split()]  # fmt: skip
    strict = base != [msgspec.Struct]
    return msgspec.defstruct(
        name, fields, bases=tuple(base), namespace={"__doc__": doc}, forbid_unknown_fields=strict, kw_only=True
    )


# fmt: off
Output = shape("Output", "A whole output.", {"schema": Literal[1]})
Allocator = shape("Allocator",
    "An allocator of the registry. `path`, `version`: null if it is not found; `how_to_get`: how to install it.",
    {"name summary how_to_get": str, "found": bool, "path version": str | None, "variants": list[str]})
Installed = dict[str, Any]
Allocators = shape("Allocators", Output, "`heaptape allocators --json`.",
    {"allocators": list[Allocator], "installed": list[Installed]})
Candidate = shape("Candidate", "An allocator that can be installed.",
    {"name source licence": str, "versions": list[str], "missing": str | None})
Candidates = shape("Candidates", Output, "`heaptape allocators list --json`.",
    {"installed": list[Installed], "candidates": list[Candidate]})
Variant = shape("Variant", "Settings of an allocator under a name.",
    {"name summary advise needs": str, "environment": dict[str, str]})
InUse = shape("InUse", Output,
    "`heaptape allocators --of PID --json`, and of `-- CMD`. `allocator`: null if the registry does not have it; "
    '`path`: the file that defines malloc; `how`: "library", "linked" (into the executable) or "static" (no '
    "LD_PRELOAD); `settings`: variables of its environment that the allocator reads.",
    {"program": str, "allocator version path": str | None, "how": Literal["library", "linked", "static"],
     "settings": dict[str, str]})
Variants = shape("Variants", Output, "`heaptape allocators --variants NAME --json`. `tunables`: names.",
    {"allocator": str, "variants": list[Variant], "tunables other_variants": list[str]})
Tunable = shape("Tunable",
    'A setting: its values or the range of its numbers; `default` "": depends on machine or program.',
    {"name type meaning scale default": str, "range search": list[int | float] | None, "values": list[str],
     "tuned": bool})
Tunables = shape("Tunables", Output, "`heaptape allocators --tunables NAME --json`.",
    {"allocator": str, "tunables": list[Tunable]})
Workload = shape("Workload",
    "A synthetic pattern, a recipe of a program (\"app\"), or a suite. `missing`: why it can't run here.",
    {"name kind summary path": str, "can_run": maybe(bool), "missing stands_for known": maybe(str | None),
     "packages workloads allocators": maybe(list[str]), "source": maybe(str)})
Workloads = shape("Workloads", Output, "`heaptape workloads --json`.",
    {"workloads": list[Workload]})
Machine = shape("Machine", Output,
    "`heaptape machine --json`: costs here, ns, with quantiles over the rounds (docs/methods/TIME_MODEL.md).",
    {"rounds independent_chains line_bytes cores created_unix_s": Count,
     "tlbs working_sets os_page_sets": list[dict[str, Any]], "code kernel geometry": dict[str, Any],
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
    "`heaptape observe --format json`. `status`: the command's exit status.",
    {"status": int, "notified": bool, "programs_lost": Count, "programs": list[Observed]})
Limit = Literal["peak_bytes", "growth_bytes", "allocations"]
Test = shape("Test",
    "A test that was run; skipped tests are left out. Bytes are requested ones. `growth`: what it left; `exceeded`: "
    "the `limits` that it is above; `worker`: of xdist, else null.",
    {"name": str, "peak_bytes growth_bytes growth_objects allocations allocated_bytes": Count,
     "outcome": Literal["passed", "failed"], "limits": dict[Limit, Count], "exceeded": list[Limit],
     "worker": str | None})
Unmeasured = shape("Unmeasured", "A test without figures, and why.",
    {"name reason": str})
Tests = shape("Tests", Output, "`--heaptape-json`, in the order in which tests ended.",
    {"tests": list[Test], "unmeasured": list[Unmeasured]})
Figures = dict[str, float | None]
Compared = shape("Compared", Output,
    "`heaptape compare --format json`. `rows`: the whole comparison, a row for each workload, allocator and metric; "
    "`tables`, with --table: rows of each table by its name. `level`: of the intervals.",
    {"level": float, "baseline interval": maybe(str), "corners": maybe(list[str]), "rows": maybe(list[dict[str, Any]]),
     "tables": maybe(dict[str, list[dict[str, Any]]])})
Pick = shape("Pick",
    "The advice for an aim. `stay`: keep today's allocator; `ties`: equally good ones; `rivals`: that may be better; "
    "`environment`: what to set.",
    {"aim use why": str, "stay": bool, "ties": list[str], "rivals": list[str], "environment": dict[str, str]})
Tried = shape("Tried",
    "A candidate, replayed. Bytes are the whole program's; `figures`: the allocator's alone. CPU time is against "
    "today's, in ns and, if the program's own time is known, in percent of it. `smallest_limit_bytes`: memory limit "
    "under which the program runs.",
    {"label allocator variant path": str, "error": maybe(str),
     "peak_bytes mean_bytes smallest_limit_bytes": maybe(Count), "figures": maybe(Figures),
     "cpu_ns cpu_low_ns cpu_high_ns cpu_percent cpu_low_percent cpu_high_percent": maybe(float),
     "cpu_from": maybe(Literal["calls", "accesses", "live"]), "cpu_steps": maybe(list[dict[str, Any]])})
Advice = shape("Advice", Output,
    "`heaptape advise --json`. `refused`: allocator -> the broken rule; `live`: what --live found.",
    {"workload": dict[str, Any], "today pick": str, "environment refused": dict[str, str], "picks": list[Pick],
     "candidates": list[Tried], "live": list[dict[str, Any]]})
Tuned = shape("Tuned", Output, "`heaptape tune -o` (docs/use/TUNING.md).",
    {"heaptape machine search": dict[str, Any], "created_unix_s": Count, "variants_left_out": list[str],
     "points tunables": list[dict[str, Any]], "winner": dict[str, Any] | None, "error_percent": Figures,
     "live": maybe(dict[str, Any] | None)})
Choice = shape("Choice", "An allocator that was compared.",
    {"name version sha256": str})
Held = shape("Held",
    "A figure of each run on both allocators, and whether the new allocator is beyond the tolerance.",
    {"unit": str, "old new": list[float], "change_percent": float | None, "span_percent": float,
     "beyond tolerated": str | None, "verdict": Literal["within", "noise", "worse", "shown"]})
Judged = shape("Judged", 'A workload of the corpus. `broken`: which promise of malloc, or "".',
    {"name source": str, "workload": dict[str, Any], "failed": bool, "errors": list[str],
     "broken": dict[Literal["old", "new"], str], "figures": dict[str, Held]})
Extent = shape("Extent", "A figure on both allocators, for a history with this many events and threads.",
    {"new": float, "old": float | None, "events threads": Count})
MinimisedTape = shape("MinimisedTape", "A minimised tape and its figures (docs/use/GATE.md).",
    {"workload folder": maybe(str), "source condition figure unit old new ended replay": str,
     "minimised whole start_up": Extent, "beyond_start_up": bool, "candidates": Count})
Minimised = shape("Minimised", MinimisedTape,
    "`minimised.json` of `heaptape gate` and `minimise` (docs/use/GATE.md).",
    {"schema": Literal[1]})
Gate = shape("Gate", Output, "`heaptape gate -o` (docs/use/GATE.md).",
    {"heaptape": dict[str, Any], "old new": Choice, "tolerated": dict[str, str], "most_runs": Count, "passed": bool,
     "workloads": list[Judged], "minimised": list[MinimisedTape], "not_minimised": list[dict[str, Any]]})
Holder = shape("Holder",
    "Who holds the memory of a recording on an allocator, at a position. Rows: docs/use/BLAME.md; bytes.",
    {"source allocator kind sentence": str, "position": Count, "lacks": list[str],
     "groups states over_time proposals": list[dict[str, Any]]})
Blame = shape("Blame", Output, "`heaptape blame --json`. `tried`: the experiments of --try.",
    {"holders": list[Holder], "tried": maybe(list[dict[str, Any]])})
Ingested = shape("Ingested", Output,
    "`heaptape fleet ingest --json`. Numbers of traces: `ingested` now, `there` before; `failed`: trace -> why.",
    {"ingested there": Count, "failed": dict[str, str]})
ChosenTrace = shape("ChosenTrace",
    "A chosen trace. `recordings`: how many it stands for; `weight`: factor of its figures.",
    {"trace name source program": str, "ops recordings": Count, "weight": float})
ChoiceError = shape("ChoiceError",
    "Weighted sum over the chosen (`estimate`) against the sum over all (`whole`). `change_percent`: the whole "
    "against the baseline; `change_error_percent`: how far its estimate is off, in percent of the baseline. Null if "
    "the baseline has no such figure.",
    {"figure label": str, "whole estimate": float, "error_percent change_percent change_error_percent": float | None})
Changed = shape("Changed",
    "One figure of a program on an allocator; `change`: better, worse, new or gone; `percent`: null if new or gone, or "
    "0 before.",
    {"change program column figure": str, "version_before version_after": str | None,
     "before after percent": float | None})
AtlasChanges = shape("AtlasChanges", Output,
    "`heaptape fleet atlas --json`. What differs from the atlas before, the greatest first.",
    {"changes": list[Changed]})
Chosen = shape("Chosen", Output,
    "`heaptape fleet choose --json`. `explained`: share (0 to 1) of the fleet's variety that the chosen traces "
    "have. `errors`: empty if not all recordings have exact cells.",
    {"chosen": list[ChosenTrace], "explained": float, "errors": list[ChoiceError]})
Row = list[int]
Witness = shape("Witness", "The proof of the history (docs/methods/CHECK.md). Counts, bytes.",
    {"ok truncated lacks_start lacks_calls": bool,
     "events ops unseen_frees double_frees unseen_touches overlapping_acquires inversions_repaired "
     "max_inversion_depth failed_calls live_at_end live_bytes_at_end peak_live_bytes peak_live_os_page_bytes "
     "peak_live_objects threads dropped": Count, "overlapping_ranges": maybe(Count)})
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
     "info": dict[str, Any]})
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
Reallocs = shape("Reallocs",
    "Reallocs of live objects. Rows of `chains`: reallocs of an object, objects, first bytes, last bytes.",
    {"calls in_place grew shrank copied_bytes": Count, "chains": list[Row]})
Profile = shape("Profile", Output,
    "`heaptape profile --format json`. The columns of its rows: docs/formats/PROFILE_JSON.md.",
    {"program": str | None, "lacks": list[str], "ops threads allocated_bytes pairs_left_out": Count,
     "duration_ns": maybe(Count), "witness": Witness,
     "windows lifetimes_bytes lifetimes_ns thread_pairs touched": list[Row],
     "sizes": dict[str, list[Row]], "reallocs": Reallocs, "sites": maybe(list[Row]),
     "line_sharing": maybe(dict[str, Any])})
RecordedProcess = shape("RecordedProcess", "A process that is being recorded.",
    {"pid events threads dropped file_bytes": Count, "trace": str,
     "state": Literal["recording", "between bursts", "stopped", "not started", "given up"]})
Control = shape("Control", Output, "`heaptape ctl --json`: the state of the recording after the command.",
    {"ok": bool, "recorder recorded": Count, "state": Literal["recording", "stopped", "not started", "ended"],
     "processes": list[RecordedProcess], "burst_asked_for": maybe(bool)})
WatchedCall = shape("WatchedCall", "Calls of one name. A rate is null without an earlier sample.",
    {"name": str, "calls": Count, "calls_per_s": float | None})
WatchedThread = shape("WatchedThread", "A live thread that has made calls; `tid`: the kernel's number.",
    {"thread tid events request_bytes": Count, "name": str, "events_per_s request_bytes_per_s": float | None})
WatchedSite = shape("WatchedSite",
    "A stack that acquires; all figures are estimates. `frames`: instructions, the innermost first. `calls`, "
    "`bytes`: acquires and their requests, since the recording began.",
    {"name": str, "frames": list[Count],
     "live_bytes live_bytes_error live_objects live_objects_error calls calls_error bytes bytes_error": float,
     "calls_per_s calls_per_s_error bytes_per_s bytes_per_s_error": float | None})
WatchedProcess = shape("WatchedProcess",
    "The process shown. Exact: events, calls, request_bytes; estimates: live_bytes, live_objects, from the share "
    "live_share of addresses. `beside_live_bytes`: RSS less live bytes. Events `skipped`: in pauses; `lost`: not "
    "written.",
    {"pid events request_bytes threads_recorded dropped skipped lost file_bytes": Count, "name trace": str,
     "forked paused stacks": bool, "given_up": str | None,
     "events_per_s request_bytes_per_s beside_live_bytes": float | None, "calls": list[WatchedCall],
     "live_bytes live_bytes_error live_objects live_objects_error live_share": float,
     "rss_anon_bytes rss_file_bytes": Count | None, "threads": list[WatchedThread], "sites": list[WatchedSite] | None})
RunningProcess = shape("RunningProcess", "One of the recording's processes.",
    {"pid events": Count, "name trace": str, "live_bytes": float, "events_per_s": float | None})
Top = shape("Top", Output,
    "`heaptape top --json`. `running`: processes recorded now; `process`: null where there is none.",
    {"recorder recorded running": Count, "interval_s": float, "ended": bool, "recorder_cpu_percent": float | None,
     "processes": list[RunningProcess], "process": WatchedProcess | None})
TopOfFile = shape("TopOfFile", Output, "`heaptape top F.tape --json` for a file that is not being written.",
    {"trace": str, "ended truncated": bool, "events threads dropped file_bytes peak_live_bytes": Count,
     "calls": dict[str, Count], "live_at_end": maybe(Count)})
# fmt: on

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "advise": (Advice,),
    "allocators": (Allocators,),
    "allocators-list": (Candidates,),
    "allocators-of": (InUse,),
    "allocators-tunables": (Tunables,),
    "allocators-variants": (Variants,),
    "blame": (Blame,),
    "check": (Check, WorkloadCheck),
    "compare": (Compared,),
    "ctl": (Control,),
    "fleet-atlas": (AtlasChanges,),
    "fleet-choose": (Chosen,),
    "fleet-ingest": (Ingested,),
    "fleet-status": (FleetStatus,),
    "gate": (Gate,),
    "info": (Info, WorkloadInfo),
    "machine": (Machine,),
    "minimise": (Minimised,),
    "observe": (Observation, Simulation),
    "profile": (Profile,),
    "pytest": (Tests,),
    "top": (Top, TopOfFile),
    "tune": (Tuned,),
    "workloads": (Workloads,),
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
