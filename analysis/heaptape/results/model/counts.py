# SPDX-License-Identifier: MIT
"""The counts of a replay's passes, as the terms that the model of time adds up."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from heaptape.common.phrases import capacity
from heaptape.results.model.penalties import LEAST_NS, Penalties, Penalty
from heaptape.results.schema import Results, number, unique_name
from heaptape.results.structs import SYSTEM_CALLS, Bursts, Misses, Run, SimulatedLevel

INSTRUCTIONS, CACHES, TLBS, FAULTS, CALLS = "instructions", "caches", "TLB", "page faults", "system calls"
HUGE_PAGES = "huge pages"
TIMED = "time in replayed calls"
START_UP = "start-up"
# Names of counts in sentences. Those without an addition are the figures of the tables.
OF_CALLS = "instructions in malloc and free"
OF_PROGRAM, OF_BURSTS, OF_START_UP = " of the program", " of the bursts", " of the start-up"
METRICS = {OF_CALLS: "total_instructions", FAULTS: "page_faults"}  # of `schema.figures`
LINES_OF_OS_PAGE, OS_PAGE_BYTES = 64, 4096
NEAR = " near"
PARTS = (INSTRUCTIONS, CACHES, TLBS, FAULTS, CALLS, START_UP)


@dataclass(frozen=True)
class Term:
    """A count of events, and the penalty of one. `part`: which of PARTS it belongs to. `tied`: terms with the same
    value are at the same end of their ranges.
    """

    name: str
    part: str
    count: float
    penalty: Penalty
    tied: str = ""


@dataclass(frozen=True)
class Timed:
    """CPU time of the calls in bare passes: that of the fastest, by how much the middle one took longer, and what the
    engine alone takes; ns.
    """

    ns: float
    error_ns: float
    engine_ns: float

    @property
    def calls_ns(self) -> float:
        return max(self.ns - self.engine_ns, 0.0)


@dataclass(frozen=True)
class Counts:
    """The counts of one allocator in one repetition. `whole`: they include the program's own instructions and misses,
    so that percentages of the program are possible. `named`: counts that sentences name, and the ns of one event, in
    the middle of its range.
    `missing`: what was not counted. `of_bursts`: the counts are of the recorded bursts, not of the whole program.
    `timed`: what the same calls took; None: bare passes were not made.
    """

    terms: tuple[Term, ...]
    whole: bool
    named: dict[str, tuple[float, float]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    of_bursts: bool = False
    timed: Timed | None = None


def timed(runs: Iterable[Run], ops: float | None) -> Timed | None:
    """Of the bare passes among the runs of one allocator. `ops`: of the workload."""
    bare = [run for run in runs if run.pass_ == "bare" and run.cpu_ns]
    if not bare or not ops:
        return None
    took = [run.cpu_ns or 0.0 for run in bare]
    engine = [
        1e9 * run.engine_cycles_per_op / run.cycles_hz for run in bare if run.engine_cycles_per_op and run.cycles_hz
    ]
    return Timed(min(took), statistics.median(took) - min(took), min(engine, default=0.0) * ops)


def without_instructions(one: Counts) -> Counts:
    """Without those of the calls: of the first calls they say little about all."""
    return replace(one, named={name: value for name, value in one.named.items() if name != OF_CALLS})


def counts(file: Results, penalties: Penalties) -> dict[str, list[Counts]]:
    """By allocator, one for each repetition that simulated misses; without one, one from the pass `instructions`
    and the memory pass. An allocator that neither of them counted is left out.
    """
    found = {}
    for name in file.labels:
        runs = [run for run in file.measured if run.label == name]
        memory = next((run for run in runs if run.pass_ == "memory"), Run(name))
        simulated = [run.misses for run in runs if run.misses]
        if simulated:
            found[name] = [of_misses(one, memory, penalties) for one in simulated]
            continue
        if any(run.pass_ == "instructions" for run in runs):
            found[name] = [of_calls(name, file, penalties)]
    return found


def bursts_in_words(files: Sequence[Results]) -> dict[str, str]:
    """Workload -> "2 bursts, 3.1 % of the program's instructions", for those that were recorded in bursts."""
    names: dict[tuple, str] = {}
    found = {unique_name(file, names): _bursts(file.measured) for file in files}
    return {name: one for name, one in found.items() if one}


def _bursts(runs: Sequence[Run]) -> str:
    """The bursts of one workload's results, in words; empty if no run's misses are of bursts."""
    found = next((run.misses for run in runs if run.misses and run.misses.bursts), None)
    if found is None or found.bursts is None:
        return ""
    count = found.bursts.count or 0
    number = f"{count:,} burst{'' if count == 1 else 's'}"
    inside, outside = found.program_instructions, found.bursts.outside_program_instructions
    if inside is None or outside is None or inside + outside <= 0:
        return f"{number}, an unknown share of the program's instructions"
    return f"{number}, {100 * inside / (inside + outside):.3g} % of the program's instructions"


def of_misses(misses: Misses, memory: Run, penalties: Penalties) -> Counts:
    """Counts of a run that simulated misses, and of the memory pass for the kinds of its system calls. For a
    recording in bursts the memory pass is not used, as it is of the whole program.
    """
    bursts = misses.bursts
    if bursts is not None:
        memory = Run(memory.allocator)
    terms: list[Term] = []
    named: dict[str, tuple[float, float]] = {}
    missing: list[str] = []
    of_what = OF_PROGRAM if bursts is None else OF_BURSTS
    program, allocator = misses.program_instructions, misses.allocator_instructions
    if program is not None and allocator is not None:
        terms.append(Term("program_instructions", INSTRUCTIONS, program, penalties.program_instruction))
        terms.append(Term("allocator_instructions", INSTRUCTIONS, allocator, penalties.allocator_instruction))
        named[INSTRUCTIONS + of_what] = (program + allocator, penalties.allocator_instruction.middle)
    terms += _strings(misses.string_instructions, misses.string_bytes, penalties)
    costs: dict[str, float] = {}
    for term, name, count in _levels(misses, penalties):
        terms.append(term)
        if name is None:
            continue
        costs[name] = costs.get(name, 0.0) + term.count * term.penalty.middle
        named[name] = (count, costs[name] / count if count else term.penalty.middle)
    # Simulated, each OS page of a huge page faults.
    simulated = misses.page_faults if not memory.huge_pages else None
    faults = memory.page_faults if simulated is None else simulated
    if faults is None:
        missing.append("page faults")
    else:
        unsure = _unsure_faults(bursts)
        terms += _faults(faults - unsure, memory.huge_pages, penalties.page_fault, penalties)
        if bursts is not None:
            terms.append(Term("unsure page faults", FAULTS, unsure, _perhaps(penalties.page_fault)))
        name = FAULTS if simulated is None else FAULTS + of_what
        named[name] = (faults - unsure, penalties.page_fault.middle)
        named |= _named_huge_pages(memory.huge_pages, penalties)
    found = memory.syscalls or _memory_calls(misses, penalties) or misses.syscalls
    terms += _system_calls(found, penalties, named, missing)
    whole = program is not None and allocator is not None
    return Counts(tuple(terms), whole, named, tuple(missing), bursts is not None)


def of_calls(label: str, file: Results, penalties: Penalties) -> Counts:
    """Counts without accesses: only the instructions of the calls, page faults and system calls, each the mean over the
    repetitions that tables show; and those of the start-up, which no table's ratio includes.
    """
    terms: list[Term] = []
    named: dict[str, tuple[float, float]] = {}
    missing = ["the program's own instructions", "cache and TLB misses"]
    means = file.means(label)
    counted = next(run for run in file.measured if run.label == label and run.pass_ == "instructions")
    ops, limit = number(file.workload.ops), counted.op_limit
    share = ops / limit if limit and ops and limit < ops else 1.0
    if "total_instructions" in means:
        total = share * means["total_instructions"]
        terms.append(Term("allocator_instructions", INSTRUCTIONS, total, penalties.allocator_instruction))
        named[OF_CALLS] = (total, penalties.allocator_instruction.middle)
        strings = [share * means[name] if name in means else None for name in ("string_instructions", "string_bytes")]
        terms += _strings(strings[0], strings[1], penalties)
    else:
        missing.append(OF_CALLS)
    memory = next((run for run in file.measured if run.label == label and run.pass_ == "memory"), Run(label))
    if "page_faults" in means:
        terms += _faults(means["page_faults"], memory.huge_pages, penalties.page_fault, penalties)
        named[FAULTS] = (means["page_faults"], penalties.page_fault.middle)
        named |= _named_huge_pages(memory.huge_pages, penalties)
    else:
        missing.append(FAULTS)
    kinds = {kind: means[f"syscalls/{kind}"] for kind in SYSTEM_CALLS if f"syscalls/{kind}" in means}
    terms += _system_calls(kinds or None, penalties, named, missing)
    terms += _start_up(counted, memory, penalties, named)
    took = timed((run for run in file.measured if run.label == label), ops)
    return Counts(tuple(terms), False, named, tuple(missing), timed=took)


def _start_up(counted: Run, memory: Run, penalties: Penalties, named: dict[str, tuple[float, float]]) -> Iterator[Term]:
    """Loading the allocator's libraries, and their constructors. What a run did not count has no term. If the machine's
    costs were measured by an earlier version, an event costs the same as later.
    """
    cold = penalties.start_up
    own: list[Term] = []
    instructions = counted.startup_process_instructions or counted.startup_instructions
    if instructions is not None:
        cost = cold.instruction if cold else penalties.allocator_instruction
        own.append(Term("instructions", INSTRUCTIONS, instructions, cost))
    strings = (counted.startup_process_string_instructions, counted.startup_process_string_bytes)
    own += _strings(*strings, penalties)
    if memory.startup_page_faults is not None:
        cost = cold.page_fault if cold else penalties.page_fault
        own += _faults(memory.startup_page_faults, memory.startup_huge_pages, cost, penalties)
    calls = counted.startup_syscalls
    if calls is not None and cold:
        count = sum(one for one in calls.values() if one is not None)
        own.append(Term("syscalls", CALLS, count, cold.system_call))
    elif calls is not None:
        own += _system_calls(calls, penalties, {}, [])
    counted_alone = [term for term in own if not term.name.startswith("string_")]  # others are among these
    for part in dict.fromkeys(term.part for term in counted_alone):
        counts_of = [term for term in counted_alone if term.part == part]
        most = max(counts_of, key=lambda term: term.count)
        named[f"{part}{OF_START_UP}"] = (sum(term.count for term in counts_of), most.penalty.middle)
    for term in own:
        yield replace(term, name=f"startup_{term.name}", part=START_UP, tied=term.name)


def _faults(faults: float, huge: float | None, fault: Penalty, penalties: Penalties) -> Iterator[Term]:
    """Page faults, each at the cost of `fault`, but `huge` of them at that of a huge page. Without their count, or if
    the machine's costs were measured by an earlier version, they cost what others do.
    """
    if huge is None or penalties.huge_page is None:
        yield Term("page_faults", FAULTS, faults, fault)
        return
    yield Term("page_faults", FAULTS, max(faults - huge, 0.0), fault)
    yield Term("huge_pages", FAULTS, huge, penalties.huge_page)


def _named_huge_pages(huge: float | None, penalties: Penalties) -> dict[str, tuple[float, float]]:
    cost = penalties.huge_page
    return {} if huge is None or cost is None else {HUGE_PAGES: (huge, cost.middle)}


def _strings(count: float | None, moved: float | None, penalties: Penalties) -> Iterator[Term]:
    """Repeated string instructions, and the bytes that they moved: each is one of the instructions, and costs more, for
    starting it and by byte. Without counts, or if the machine's costs were measured by an earlier version, none.
    """
    if count is not None and moved is not None and penalties.string_instruction and penalties.string_byte:
        yield Term("string_instructions", INSTRUCTIONS, count, penalties.string_instruction)
        yield Term("string_bytes", INSTRUCTIONS, moved, penalties.string_byte)


def _levels(misses: Misses, penalties: Penalties) -> Iterator[tuple[Term, str | None, float]]:
    """Misses of each level, at the cost of the step to the next level: each level is simulated as if it were the only
    outer one, so an access that misses a level misses those before it, too. Whether a line or an OS page missed when a
    burst accessed it for the first time is not known: each costs between nothing and the whole step, and has no name.
    """
    bursts = misses.bursts
    tlbs = [_level(one, one.entries or 0) for one in misses.tlbs or []]
    tlbs.sort(key=attrgetter("capacity"))
    rows = [_level(one, one.bytes or 0) for one in misses.caches or []]
    rows.sort(key=attrgetter("capacity"))
    faults = (misses.page_faults or 0) - _unsure_faults(bursts)
    fresh_lines = LINES_OF_OS_PAGE * faults
    if bursts is None and faults:
        penalties = penalties.of_program(OS_PAGE_BYTES * faults)
    other_pages = tlbs[0].misses if tlbs else None
    for row, steps in zip(rows, _cache_steps([row.capacity for row in rows], penalties)):
        last = row is rows[-1]
        name = "last-level misses" if last else f"misses of {capacity(row.capacity)}"
        for term in _of_cache(row, _kinds(row, steps, other_pages), min(row.misses, fresh_lines) if last else None):
            yield term, name, row.misses
        if bursts is not None:
            first = float(bursts.first_lines or 0)
            yield Term(f"first lines, caches {row.capacity}", CACHES, first, _perhaps(steps.anywhere)), None, 0
    for row, step in zip(tlbs, penalties.tlb_steps([row.capacity for row in tlbs])):
        name = f"misses of a TLB of {row.capacity:,} entries"
        yield Term(f"TLB {row.capacity}", TLBS, row.misses, step), name, row.misses
        if bursts is not None:
            first = float(bursts.first_pages or 0)
            yield Term(f"first OS pages, TLB {row.capacity}", TLBS, first, _perhaps(step)), None, 0


def _unsure_faults(bursts: Bursts | None) -> float:
    return float(bursts.unsure_page_faults or 0) if bursts else 0.0


def _perhaps(penalty: Penalty) -> Penalty:
    """The penalty of an event that may not have happened."""
    return Penalty.between(LEAST_NS, penalty.high)


@dataclass(frozen=True)
class _Level:
    """The misses of a cache (`capacity` in bytes) or a TLB (in entries). `sequential`: None if not counted."""

    capacity: int
    misses: float
    sequential: float | None


def _level(row: SimulatedLevel, capacity: int) -> _Level:
    """The level's misses without those of first accesses; their sequential share is taken to be that of all misses."""
    first, count, sequential = row.first_misses or 0, row.misses or 0, row.sequential_misses
    if not first:
        return _Level(capacity, count, sequential)
    return _Level(capacity, count - first, None if sequential is None else sequential * (count - first) / count)


@dataclass(frozen=True)
class _Steps:
    """Penalties of a miss of one level: anywhere, in an OS page just used, in sequence."""

    anywhere: Penalty
    near: Penalty
    sequential: Penalty


def _cache_steps(capacities: Sequence[int], penalties: Penalties) -> Iterator[_Steps]:
    kinds = (penalties.cache_steps, penalties.near_steps, penalties.sequential_steps)
    return map(_Steps, *(steps(capacities) for steps in kinds))


def _kinds(row: _Level, steps: _Steps, other_pages: float | None) -> list[tuple[str, float, Penalty]]:
    """(suffix of the term's name, count, penalty) of a level's misses, by kinds of equal cost.

    Sequential misses, if they are counted. At most as many of the rest as the first TLB missed (`other_pages`) are in
    an OS page that was not just used, as that TLB has the OS pages that were used last. All other misses are near.
    """
    sequential = row.sequential
    suffix = "" if sequential is None else " at random"
    rest = row.misses - (sequential or 0)
    far = rest if other_pages is None else min(rest, other_pages)
    kinds = [(suffix, far, steps.anywhere)]
    if other_pages is not None:
        kinds.append((f"{suffix}{NEAR}", rest - far, steps.near))
    if sequential is not None:
        kinds.append((" in sequence", sequential, steps.sequential))
    return kinds


def _of_cache(row: _Level, kinds: Sequence[tuple[str, float, Penalty]], fresh: float | None) -> Iterator[Term]:
    """The terms of one level.

    `fresh`, of the last level: a line of an OS page that the kernel just provided was not there before, so it misses;
    but the kernel has just zeroed it, so it mostly is in a cache: such misses cost between nothing and the whole step.
    Their kinds are not counted: the shares are taken to be those of all misses. Near and other misses are tied: how
    much a program's loads wait for one another is the same wherever they miss.
    """
    name, all_misses = f"caches {row.capacity}", row.misses
    for suffix, count, penalty in kinds:
        tied = suffix.removesuffix(NEAR)
        mine = fresh * count / all_misses if fresh and all_misses else 0
        if fresh is not None:
            range_ = Penalty.between(LEAST_NS, penalty.high)
            yield Term(f"fresh lines{suffix}", CACHES, mine, range_, f"fresh lines{tied}")
        yield Term(f"{name}{suffix}", CACHES, count - mine, penalty, f"{name}{tied}")


def _memory_calls(misses: Misses, penalties: Penalties) -> dict[str, float | None]:
    """The allocator's memory system calls, including its start-up's, if the pass counted them by kind."""
    by_kind = (misses.allocator.syscalls_by_kind if misses.allocator else None) or {}
    return {kind: count for kind, count in by_kind.items() if kind in penalties.system_calls}


def _system_calls(
    found: Mapping[str, float | None] | float | None,
    penalties: Penalties,
    named: dict[str, tuple[float, float]],
    missing: list[str],
) -> list[Term]:
    """Terms by kind if the kinds are known, else for the total."""
    if isinstance(found, Mapping):
        kinds: dict[str, float | None] = {**dict.fromkeys(penalties.system_calls, 0.0), **found}
        known = {name: count for name, count in kinds.items() if count is not None}
        named[CALLS] = (sum(known.values()), penalties.other_system_call.middle)
        return [
            Term(name, CALLS, count, penalties.system_calls.get(name, penalties.other_system_call))
            for name, count in known.items()
        ]
    if found is None:
        missing.append("system calls")
        return []
    named[CALLS] = (found, penalties.other_system_call.middle)
    return [Term("syscalls", CALLS, found, penalties.other_system_call)]
