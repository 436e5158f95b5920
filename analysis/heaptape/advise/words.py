# SPDX-License-Identifier: MIT
"""The advice as a screen: what to use, what that brings and costs, the line to set it, and why."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heaptape.allocators.registry import Choice
from heaptape.common.console import printable
from heaptape.common.phrases import any_of, change_of_size, counted, percent, size, size_above
from heaptape.common.tables import Cell, Table, cut
from heaptape.common.version import __version__
from heaptape.decide.cpu import ESTIMATED, LIVE, MILLISECONDS, RANGE, Cpu, cpu_text, range_text
from heaptape.decide.verdict import AIMS, BOTH, CPU, MEMORY, Candidate, Judge, Pick, between, once_each
from heaptape.decide.worth import NO_REASON
from heaptape.results.recorded_on import short_version
from heaptape.show.screen import Screen

MOST_NAMES = 3
MOST_ALTERNATIVES = 2
MOST_OF_A_REASON = 300
MOST_REASONS = 3
AIM = {MEMORY: "memory", CPU: "CPU time"}


@dataclass(frozen=True)
class Advice:
    """All findings. `about`: the workload, in words. `today`: label of the allocator that the program runs on; `doubt`:
    why that is only assumed. `refused`: label -> why it is not advised. `caveats`: what could change the advice.
    `live`: the results of live runs, a sentence each. `next_step`: (label, command) of what else can be done.
    `command`: the program's, to print it with the variables to set. `left_out`: of the budget's steps, in words.
    `upgrades`: what other glibcs bring, a sentence each. `race`: the command that has time for a race. `fits_in`: label
    -> memory limit in bytes under which the program runs, where that is known. `linked`: the allocator that is in the
    program itself, which LD_PRELOAD does not replace; empty: none is.
    """

    about: str
    today: str
    rows: Sequence[Candidate]
    picks: Sequence[Pick]
    judge: Judge
    choices: Mapping[str, Choice]
    doubt: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    caveats: Sequence[str] = ()
    live: Sequence[str] = ()
    next_step: Sequence[tuple[str, str]] = ()
    command: Sequence[str] = ()
    left_out: str = ""
    fits_in: Mapping[str, float] = field(default_factory=dict)
    upgrades: Sequence[str] = ()
    race: str = ""
    linked: str = ""

    def can_be_set(self, label: str) -> bool:
        """Does the environment bring the program on it?"""
        return not self.linked or self.choices[label].allocator == self.choices[self.today].allocator

    def environment(self, label: str, c_library: str) -> dict[str, str]:
        """The variables to set: LD_PRELOAD and the allocator's own."""
        choice = self.choices[label]
        library = choice.preload or (c_library if self.today.partition(":")[0] != choice.allocator else "")
        return ({"LD_PRELOAD": library} if library and not self.linked else {}) | choice.environment

    def row(self, label: str) -> Candidate:
        return next(row for row in self.rows if row.label == label)


def screen(advice: Advice, c_library: str) -> Screen:
    """The screen. `c_library`: path of the C library, to be preloaded for its allocator."""
    labels, table = _changes(advice, ["", "", "", ""])
    said = [_to_link(advice, label) or f"  {_line_to_set(advice, label, c_library)}" for label in labels]
    said += [""] * bool(labels)
    said += _staying(advice) + _alternatives(advice) + _why(advice, labels)
    said += [*advice.upgrades, *advice.live]
    about = f"{advice.about} Compared with {advice.today}: {advice.doubt}." if advice.doubt else advice.about
    caveats = list(advice.caveats)
    caveats += [advice.left_out] * bool(advice.left_out)
    if advice.refused:
        caveats.append(f"Not advised: {_refused(advice.refused)}.")
    return Screen(about, table, said, caveats, advice.next_step)


def pasted(advice: Advice, c_library: str, repeat: str) -> Screen:
    """A block for a pull request, of some ten lines: the table, what to set, the allocators with their versions, how it
    was measured, and the command that repeats it.
    """
    labels, table = _changes(advice, ["", "of the program", "change", "measured by"])
    lines = [_to_link(advice, label) or f"Set: `{_line_to_set(advice, label, c_library)}`" for label in labels]
    said = [f"- {line}" for line in lines]
    said += [f"- {line}" for line in (*_staying(advice), *advice.upgrades, *advice.live)]
    choices = {label.partition(":")[0]: advice.choices[label] for label in (advice.today, *labels)}
    versions = ", ".join(f"{name} {short_version(one.version)}".strip() for name, one in choices.items())
    said.append(
        f"- Measured: {versions}; memory and instructions are counted in replays of a recording, "
        f"heaptape {__version__}. Repeat: `{repeat}`"
    )
    return Screen(advice.about, table, said)


def _changes(advice: Advice, columns: list[str]) -> tuple[list[str], Table | None]:
    """Labels of what is advised instead of today's allocator, and the table of what that changes; None: nothing is."""
    changes = [pick for pick in advice.picks if pick.label != advice.today and not _is_group(advice, pick)]
    labels = list(dict.fromkeys(pick.label for pick in changes))
    rows = [row for label in labels for row in _figures(advice, label, changes)]
    rows += [_group_row(advice, pick) for pick in advice.picks if _is_group(advice, pick)]
    return labels, Table("", columns, rows, text_columns=2) if rows else None


def _is_group(advice: Advice, pick: Pick) -> bool:
    """Is it only estimated which of several is the fastest? Then none of them is picked."""
    return pick.aim == CPU and bool(pick.other_rivals) and not any(advice.row(label).live for label in pick.group)


def _group(advice: Advice, pick: Pick) -> dict[str, Cpu]:
    """The labels that may be the fastest, each allocator once, and their changes of CPU time."""
    now = advice.row(advice.today)
    return {label: cpu for label in pick.families if (cpu := advice.judge.cpu(now, advice.row(label)))}


def _group_row(advice: Advice, pick: Pick) -> list[Cell]:
    """The row of a group: its range, of estimates without what the caches may add."""
    group = _group(advice, pick)
    estimated = all(cpu.kind == ESTIMATED for cpu in group.values())
    ends = [(cpu.percent, cpu.percent) if estimated else (cpu.low, cpu.high) for cpu in group.values()]
    text = "≈ " * estimated + range_text(max(min(low for low, _ in ends), -100.0), max(high for _, high in ends))
    title = Cell(f"For CPU time {any_of(list(group), MOST_NAMES)}", short=f"{AIM[CPU]}: {any_of(list(group), 1)}")
    return [title, Cell("CPU time"), Cell(text), Cell("estimated")]


def _undecided(advice: Advice, pick: Pick) -> str:
    """What decides which of a group is the fastest."""
    raced = [live for label in pick.group if (live := advice.row(label).live) and live.standing]
    now = advice.row(advice.today)
    peaks = {label: percent(-advice.judge.saves(advice.row(label), now)) for label in pick.families}
    which = any_of([f"{label} (peak memory {change})" for label, change in peaks.items()], MOST_NAMES)
    if raced:
        rounds = counted(max(live.rounds for live in raced), "round")
        return f"Not told apart in {rounds} of a race: {which}; a longer --budget decides."
    race = f"; a race decides: {advice.race}" if advice.race else ""
    return f"Which is the fastest is not known: {which}{race}."


def _line_to_set(advice: Advice, label: str, c_library: str) -> str:
    settings = advice.environment(label, c_library)
    words = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    return " ".join([*words, *([shlex.join(advice.command)] if advice.command else [])])


def _to_link(advice: Advice, label: str) -> str:
    """Where no variable does it: a sentence; else empty."""
    choice = advice.choices[label]
    settings = f" ({' '.join(f'{name}={value}' for name, value in choice.environment.items())})"
    instead = f"Link it with {choice.allocator}{settings * bool(choice.environment)} instead of {advice.linked}"
    return "" if advice.can_be_set(label) else f"{instead}, which is in the program: LD_PRELOAD has no effect on it."


def candidates(advice: Advice) -> Table:
    """Every setting that was replayed, today's included: bytes, and the change of CPU time in percent (ms where the
    program's is not known), with its ends.
    """
    now = advice.row(advice.today)
    rows = []
    for row in advice.rows:
        cpu = advice.judge.cpu(now, row)
        ends = [] if cpu is None else [cpu.ms, cpu.ms_low, cpu.ms_high]
        if cpu and cpu.kind != MILLISECONDS:
            ends = [cpu.percent, cpu.low, cpu.high]
        figures = [Cell(f"{value:.6g}", value) for value in (row.peak or 0.0, row.mean or 0.0, *ends)]
        unit = Cell("" if cpu is None else "ms" if cpu.kind == MILLISECONDS else "%")
        rows.append([Cell(row.label), *figures, *[Cell("")] * (5 - len(figures)), unit])
    columns = ["allocator", "peak bytes", "mean bytes", "CPU time change", "at least", "at most", "unit"]
    return Table("", columns, rows)


def _figures(advice: Advice, label: str, changes: Sequence[Pick]) -> list[list[Cell]]:
    """The rows of one allocator to use: peak memory and CPU time."""
    aims = [AIM[pick.aim] for pick in changes if pick.label == label]
    only = "" if len(aims) == len(advice.picks) else f"For {aims[0]} use "
    title = Cell(f"{only or 'Use '}{label}", short=f"{aims[0]}: {label}" if only else "")
    now, row = advice.row(advice.today), advice.row(label)
    change = -advice.judge.saves(row, now)
    memory = f"{change_of_size(now.peak or 0.0, row.peak or 0.0)} ({percent(change)})"
    good = True if advice.judge.gains_peak(row, now) else False if advice.judge.gains_peak(now, row) else None
    rows = [[title, Cell("peak memory"), Cell(memory, change, good=good), Cell("replayed")]]
    if advice.judge.by_mean and now.mean and row.mean is not None:
        change = 100 * (row.mean / now.mean - 1)
        mean = f"{change_of_size(now.mean, row.mean)} ({percent(change)})"
        better = advice.judge.gains_mean(row, now) or (False if advice.judge.gains_mean(now, row) else None)
        rows.append([Cell(""), Cell("mean memory"), Cell(mean, change, good=better), Cell("replayed")])
    cpu = advice.judge.cpu(now, row)
    if cpu:
        how = {RANGE: "simulated caches", LIVE: _rounds_of(row)}
        better = True if cpu.is_reason else False if cpu.low > 0 else None
        rows.append(
            [
                Cell(""),
                Cell("CPU time"),
                Cell(cpu_text(cpu), cpu.percent, good=better),
                Cell(how.get(cpu.kind, "estimated")),
            ]
        )
    limits = [advice.fits_in.get(one) for one in (label, advice.today)]
    if limits[0] and limits[1]:
        fits, today = (size(size_above(limit)) for limit in limits if limit)
        better = True if limits[0] < limits[1] else None
        rows.append([Cell(""), Cell("fits in"), Cell(f"{fits} ({now.label}: {today})", good=better), Cell("limit")])
    return rows


def _rounds_of(row: Candidate) -> str:
    """How live runs measured it."""
    if not row.live:
        return ""
    return f"{row.live.rounds} {'counted' if row.live.counted else 'live'} rounds"


def _staying(advice: Advice) -> list[str]:
    stays = [pick for pick in advice.picks if pick.label == advice.today]
    if not stays:
        return []
    if len(stays) == len(advice.picks):
        if advice.today in advice.refused:
            return ["Nothing that was tried keeps the limit."]
        why = "; ".join(dict.fromkeys(pick.why for pick in stays))
        return [f"{NO_REASON.capitalize()} from {advice.today}: {why}."]
    return [f"For {AIM[pick.aim]} stay with {advice.today}: {pick.why}." for pick in stays]


def _alternatives(advice: Advice) -> list[str]:
    """Ties, and candidates that no other candidate beats in both aims."""
    out = []
    for pick in advice.picks:
        ties = once_each((pick.label, *pick.ties))[1:]
        if ties and pick.label != advice.today and not _is_group(advice, pick):
            out.append(f"As good for {AIM[pick.aim]}, within the error: {_names(ties)}.")
        if pick.aim == CPU and pick.other_rivals:
            out.append(_undecided(advice, pick))
    if {pick.aim for pick in advice.picks} != set(AIMS[BOTH]):
        return out
    named = {advice.today, *(label for pick in advice.picks for label in (pick.label, *pick.ties, *pick.rivals))}
    now = advice.row(advice.today)
    rows = [row for row in advice.rows if row.label not in advice.refused]
    front = [row for row in between(rows, now, advice.judge) if row.label not in named]
    front = [row for row in front if not advice.choices[row.label].c_library]  # they are upgrades, said apart
    found = [row for row in front if advice.judge.gains(row, now)][:MOST_ALTERNATIVES]
    return out + [f"Or {row.label}: {_short(advice, row)}." for row in found]


def _short(advice: Advice, row: Candidate) -> str:
    now = advice.row(advice.today)
    cpu = advice.judge.cpu(now, row)
    return f"peak memory {percent(-advice.judge.saves(row, now))}" + (f", CPU time {cpu_text(cpu)}" if cpu else "")


def _why(advice: Advice, labels: Sequence[str]) -> list[str]:
    """The counts behind the change of CPU time of the first allocator to use."""
    for label in labels:
        cpu = advice.judge.cpu(advice.row(advice.today), advice.row(label))
        if cpu and cpu.because:
            of = f" ({label})" if len(labels) > 1 else ""
            return [f"Why{of}: {', '.join(cpu.because)}."]
    return []


def _refused(refused: Mapping[str, str]) -> str:
    """Labels grouped by reason; the first reasons."""
    by_reason: dict[str, list[str]] = {}
    for label, why in refused.items():
        why = why.partition(" pass: ")[2] or why
        by_reason.setdefault(printable(cut(why, MOST_OF_A_REASON)), []).append(label)
    parts = [f"{_names(labels)}: {why}" for why, labels in by_reason.items()]
    more = len(parts) - MOST_REASONS
    return "; ".join(parts[:MOST_REASONS]) + (f"; {more} more in --json" if more > 0 else "")


def _names(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MOST_NAMES} more" if len(labels) > MOST_NAMES else ""
    return ", ".join(labels[:MOST_NAMES]) + more
