"""The `heaptape` command: arguments, exit statuses, and nothing else.

Exit status: 0 done, 1 failed (one line on stderr), 2 wrong usage (one line), 128 + N ended by signal N. What a
subcommand needs is imported when it runs: `heaptape --help` must not wait for numpy.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import flush_standard_output
from heaptape.common.version import __version__

# The subcommands that are C programs of their own: name -> (program, leading arguments, summary, help).
PROGRAMS: dict[str, tuple[str, list[str], str, str]] = {
    "record": (
        "record",
        [],
        "run a program and record its malloc calls",
        """usage: heaptape record [-o F.tape] [--on-full wait|drop] [--no-follow] [--describe] [--preload LIB]
                       [--start-paused] [--signal NAME] [--duration SECONDS] [--max-size BYTES] [--sample-ms MS]
                       [--stamp tags|every] [--clock auto|counter] [--touch-min BYTES]
                       [--latency] [--usable] [--stacks[=DEPTH]] [--unwind auto|dwarf|fp] [--] CMD [ARGUMENT...]

Runs CMD with its malloc calls recorded, and exits with CMD's status. Each process that CMD starts gets a trace of its
own (NAME.PID.tape).

  -o F.tape            where the trace goes (default: PROGRAM.PID.tape)
  --on-full wait|drop  when the collector can't keep up: let the program wait (default), or drop events and count them
  --no-follow          record this process only, not its children
  --describe           store arguments and host name in the trace (never done without this)
  --preload LIB        record the program on another allocator
  --start-paused       record nothing until 'heaptape ctl PID start' or the signal
  --signal NAME        the recorder starts or stops recording when it (not the program) gets this signal: USR1, RTMIN+3
  --duration SECONDS   recording ends so long after its start; the program goes on
  --max-size BYTES     recording ends when the traces together are about to be larger (K, M, G: powers of 1024)
  --sample-ms MS       how often the memory of the program is looked at (default 10)
  --stamp tags|every   how events of different threads are ordered (default tags; every: a time stamp per event)
  --clock auto|counter stamps from the cycle counter where it can be trusted (auto), or from a shared counter
  --touch-min BYTES    blocks of this size or more are asked how many of their OS pages the program touched (default
                       8192; 0: none)
  --latency            store how long each call took, in units of the cycle counter; what reading it costs is subtracted
  --usable             store how much of each block can be used (malloc_usable_size)
  --stacks[=DEPTH]     store the call stack of each call that acquires: at least the innermost DEPTH frames (default 32)
  --unwind auto|dwarf|fp
                       how stacks are walked: by the compiler's unwind tables, and frame pointers where there are none
                       (auto); by the tables only; by frame pointers only, the fastest where the program has them
""",
    ),
    "info": (
        "convert",
        ["info"],
        "say what a trace or workload holds",
        """usage: heaptape info F [--json]

Counts per call, threads, bytes, dropped events, peak live bytes and the recorded memory of a trace (.tape), a workload
(.work) or an Android memory_replay trace.
""",
    ),
    "dump": (
        "convert",
        ["dump"],
        "print events, one per line",
        """usage: heaptape dump F [--format text|csv|jsonl] [--thread N] [--stacks [--debuginfod]]
       heaptape dump F --stacks --nodes [--debuginfod]

One event per line, in merged order. --stacks: the call stacks too, each where it first occurs, as function, file and
line; where the files of the recording are not here, or have changed, as module and offset. --debuginfod: debug
information that is not here may be fetched, as DEBUGINFOD_URLS says.

--nodes: no events, but the tree that the stacks form, one JSON object per node, parents first:
{"node": 7, "parent": 3, "frames": [...]}; a frame has function, file, line, module and offset as far as they are known.
""",
    ),
    "check": (
        "convert",
        ["check"],
        "prove that a trace or workload is a legal history",
        """usage: heaptape check F [--json]

Proves that the lifetimes at each address are disjoint and that each release is of a live object. Exit 1 if not.
""",
    ),
    "convert": (
        "convert",
        ["convert"],
        "translate between formats",
        """usage: heaptape convert [--from FMT] [--allow-gaps] [--process PID] [--slice SPEC]... [--anonymise]
                        [--archive] IN [--to FMT] OUT
       heaptape convert --merge [--slice SPEC]... [--anonymise] [--archive] IN... OUT
       heaptape convert --list

Formats are detected or named; --list prints those known.

  --slice SPEC   a piece that is a legal history of its own: time=1.5s..3s, progress=10%..20%, progress=1000..5000
                 (events), mark=FROM..TO, thread=0,3..5, size=1k..64k. Either side may be left out; several specs are
                 the intersection. Objects alive where the piece begins come in as a prologue.
  --merge        traces of several processes as one, as its threads
  --anonymise    what a replay needs and no more: no addresses, times, names, stacks, marks
  --archive      the smallest form; everything that reads a trace reads it

--to also takes parquet (OUT is a folder), hdf5, pprof, folded, folded-objects, folded-leaks
(by call stack, where there are any) and chrome (a time line for Perfetto).
  --allow-gaps   take a recording that says that events were lost; each loss becomes a gap of the trace
  --process PID  of a recording of several processes, this one
""",
    ),
    "compile": (
        "convert",
        ["compile"],
        "make a workload from a trace",
        """usage: heaptape compile IN [-o OUT.work] [--json]

Orders the events, proves the history legal, and writes the program that the replay engine runs. `heaptape replay` does
this by itself when it is given a trace.
""",
    ),
}

# What `compare --table` prints: name -> what it is (table_kinds.py makes them).
TABLES = {
    "cost": "total cycles, mean cycles per malloc, calloc, realloc and free, peak RSS",
    "percent": "the same in percent of the baseline, with their means over workloads",
    "corners": "the matrix of --corners",
    "overhead": "RSS against ideal RSS, of the corners, or of each allocator against the baseline",
    "system": "system calls and their bytes, virtual and resident size",
    "fragmentation": "what RSS consists of at its peak: live, rounding, caches and bins, empty OS pages, metadata",
    "latency": "percentiles by call type and size class",
    "sweep": "figures at each value of a tunable",
    "sharing": "cache lines that threads share (replay --passes sharing)",
    "verdict": "what the repetitions allow to be said, in words, with effect sizes",
}

COMMANDS = (*PROGRAMS, "ctl", "profile", "replay", "compare", "report", "allocators", "workloads", "verify-fidelity")


class Parser(argparse.ArgumentParser):
    """One line on wrong usage, not the whole usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see '{self.prog} --help')\n")


def _add_ctl(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "ctl",
        help="start, stop, flush or ask a recording that runs",
        description="Controls a running 'heaptape record'. PID is a recorded process, or the recorder for all that it "
        "records. 'stop' suspends recording until 'start'; the trace counts what was not seen. 'flush' makes "
        "the trace readable up to now. Only for the user who records, and root.",
    )
    parser.add_argument("pid", metavar="PID", type=int)
    parser.add_argument("verb", metavar="start|stop|flush|status", choices=["start", "stop", "flush", "status"])
    parser.add_argument("--json", action="store_true", help="machine-readable")


def _add_profile(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "profile",
        help="what a program asks of an allocator",
        description="Request sizes, lifetimes, remote frees, reallocs, shared cache lines, hot call stacks, and what "
        "makes the workload hard.",
    )
    parser.add_argument("input", metavar="F", help="trace, or what 'heaptape convert' can read; - for standard input")
    parser.add_argument(
        "--format",
        default="text",
        choices=["text", "md", "json", "html", "svg"],
        help="text (default), Markdown, JSON; html: one page with plots that needs nothing else; svg: the flame graph "
        "of the call stacks, to be zoomed and searched in a browser",
    )
    parser.add_argument("-o", default="-", dest="output", metavar="FILE", help="write there instead")
    parser.add_argument(
        "--weight",
        default="bytes",
        choices=["bytes", "objects", "peak", "leaked"],
        help="what the flame graph shows first: bytes asked for (default), objects, what was live at the peak, or what "
        "was never freed",
    )


def _add_replay(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "replay",
        help="replay a trace or workload into allocators and measure them",
        description="Replays a trace (.tape), workload (.work) or Android trace into allocators, one fresh process per "
        "run, allocators interleaved in random order, and prints the comparison.",
    )
    parser.add_argument("input", metavar="F", help="trace, workload or Android trace; - for standard input")
    parser.add_argument(
        "-a",
        "--allocator",
        action="append",
        metavar="NAME[:VARIANT]|LIB.so",
        help="an allocator of the registry, or a library by path; either may be followed by ':NAME=VALUE': a tunable "
        "('heaptape allocators --variants NAME' lists them) or a variable of the environment. VALUE may be a range, a "
        "variant for each: glibc:tcache_count=0..16/4, reference:tcache_count=1..64*2 (powers), of a tunable also "
        "0,7,100. Repeatable. Default: all that 'heaptape allocators' finds",
    )
    parser.add_argument(
        "-n",
        "--repeats",
        type=int,
        default=5,
        help="repetitions of the time pass (default 5); bare runs twice, memory too where that is enough, others once",
    )
    parser.add_argument(
        "--until-ci",
        type=float,
        default=0,
        metavar="PERCENT",
        help="go on repeating until the 95 %% interval of each allocator's cycles, as a ratio to the baseline's, is "
        "within so many percent (or --max-repeats is reached)",
    )
    parser.add_argument(
        "--max-repeats", type=int, default=50, metavar="N", help="repetitions at most with --until-ci (default 50)"
    )
    parser.add_argument(
        "--order",
        default="",
        metavar="MODE",
        help="recorded, causal, window[=N], paced[=SPEED] (keeps the recorded times, SPEED times as fast) or "
        "random=SEED (a legal order drawn anew, one thread at a time). Default: window for time and bare, recorded for "
        "memory",
    )
    parser.add_argument(
        "--as-malloc",
        action="store_true",
        help="call only malloc and free, whatever was recorded: calloc clears, realloc copies, alignment as it comes",
    )
    parser.add_argument(
        "--threads-to-cores",
        action="store_true",
        help="bind each thread to one processor, in turn; allocators that ask how many processors they may use see one",
    )
    parser.add_argument(
        "--clock",
        default="recorded",
        choices=("recorded", "real"),
        help="the clock that the allocator reads, for what it does by time: as it went in the recording (default), or "
        "the real one, by which a replay is over sooner",
    )
    parser.add_argument(
        "--disturb",
        type=int,
        default=0,
        metavar="LINES",
        help="before each timed call read so many cache lines of other memory, as a program would, so that the "
        "allocator's are as cold as in life (default 0, at most 1048576; slow)",
    )
    parser.add_argument(
        "--touch",
        default="recorded",
        metavar="POLICY",
        help="what to write into each new block: recorded (as many OS pages as the program touched; where that is not "
        "known as lines and a byte of each OS page of the first 64 KiB), lines (a byte in every 64 of the first 256; "
        "recorded=N, lines=N: of the first N), first (the first byte), pages (a byte of each OS page), all or none "
        "(default recorded)",
    )
    parser.add_argument(
        "--passes",
        default="time,memory,bare",
        metavar="LIST",
        help="of time, memory, bare (default: these), instructions (counted by valgrind), verify, sharing "
        "(cache lines that threads share)",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="instead of measuring, check that each allocator keeps its promises (no overlap, alignment, contents, "
        "zeroes, usable size); exit 1 and name the op if one doesn't",
    )
    parser.add_argument(
        "--aslr", action="store_true", help="keep address space randomisation (default: the same addresses in each run)"
    )
    parser.add_argument(
        "--seed", type=int, help="of the random order of runs (default: drawn, and stored in the results)"
    )
    parser.add_argument(
        "--timeout", type=float, default=0, metavar="SECONDS", help="give up on a run after this long (default: never)"
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="allocator that the printed percentages refer to (default: glibc, else the first)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="R.json",
        help="where the results go (default NAME.results.json; - for standard output)",
    )


def _add_compare(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "compare",
        help="tables of results, with intervals",
        description="Prints what each allocator cost, then the same as percentages of a baseline with 95 % intervals "
        "over the repetitions. Several files are several workloads.",
    )
    parser.add_argument(
        "results", nargs="+", metavar="R.json", help="results of replay, or reports; - for standard input"
    )
    parser.add_argument(
        "--baseline", metavar="NAME", help="allocator that percentages refer to (default: glibc, else the first)"
    )
    parser.add_argument(
        "--table",
        action="append",
        metavar="NAME",
        choices=TABLES,
        help="print this table instead of all usual ones; repeatable: "
        + "; ".join(f"{name}: {what}" for name, what in TABLES.items()),
    )
    parser.add_argument(
        "--format",
        default="text",
        choices=["text", "md", "csv", "json", "latex"],
        help="text (default), Markdown, CSV (one --table at a time), JSON, or LaTeX for the package booktabs",
    )
    parser.add_argument(
        "--interval",
        default="t",
        choices=["t", "bootstrap"],
        help="95 %% intervals by Student's t on paired log ratios (default), or by a studentised bootstrap of them, "
        "which holds better where noise is skewed, and is wider; of fewer than 5 repetitions it is Student's",
    )
    parser.add_argument(
        "--verdict",
        action="store_true",
        help="what the repetitions allow to be said, in words: the same as --table verdict",
    )
    parser.add_argument(
        "--corners",
        metavar="NEITHER,A,B,BOTH",
        help="the four-corner matrix of two switches instead, and RSS overhead: four allocators of the results, for "
        "instance reference:neither,reference:fastbins,reference:tcache,reference",
    )
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="figures at each value of a tunable that replay was given as a range: the same as --table sweep",
    )
    parser.add_argument("--tunable", metavar="NAME", help="with --sweep: which, where several were swept")
    parser.add_argument(
        "--plot", metavar="FILE", help="with --sweep: draw its curves into FILE too (.svg, .pdf or .png)"
    )
    parser.add_argument(
        "--ministat",
        action="store_true",
        help="the repetitions drawn as BSD's ministat does, with Student's t against the baseline, instead",
    )


def _add_report(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "report",
        help="one self-contained HTML file, or a notebook",
        description="Writes one HTML file with tables, graphs, how it was measured, and the raw results inside; or a "
        "notebook that reads the results and draws the same.",
    )
    parser.add_argument(
        "results", nargs="+", metavar="R.json", help="results of replay, or reports; - for standard input"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="default report.html or report.ipynb; - for standard output"
    )
    parser.add_argument("--notebook", action="store_true", help="a Jupyter notebook instead")
    parser.add_argument(
        "--baseline", metavar="NAME", help="allocator that percentages refer to (default: glibc, else the first)"
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="keep the memory maps among the raw results even where they make a very large page",
    )


def _add_allocators(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("allocators", help="the allocators known here, found or how to get them")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--variants", metavar="NAME", help="the variants of one allocator and the settings behind them")


def _add_workloads(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "workloads",
        help="synthetic programs, and recipes of real ones: record them unattended",
        description="Without an action: lists what there is, and why some of it can't run here. capture: records "
        "NAME.tape. run: and replays it; a suite's name records what is missing, replays, compares and reports in a "
        "folder. write: writes a synthetic pattern as NAME.work without a run, the pattern's options after --. "
        "setup: installs what recipes need (root or sudo). Prepared inputs are kept in "
        "$XDG_CACHE_HOME/heaptape.",
    )
    parser.add_argument("action", nargs="?", choices=["capture", "run", "write", "setup"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    told = "where the trace goes (default NAME.tape), or the workload, or a suite's folder (default its name)"
    parser.add_argument("-o", "--output", metavar="F", help=told)
    parser.add_argument("--all", action="store_true", help="keep the traces of the other processes too, as F.PID.tape")
    parser.add_argument("--all-apps", action="store_true", help="capture each recipe of a real program, one by one")
    parser.add_argument("--discard", action="store_true", help="capture: only the figures, no traces")
    parser.add_argument("--table", action="store_true", help="capture: the figures as a Markdown table")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    suite = parser.add_argument_group("run a suite")
    suite.add_argument("-a", "--allocator", action="append", metavar="NAME", help="instead of the suite's own")
    suite.add_argument("-n", dest="repeats", type=int, metavar="N", help="repetitions, instead of the suite's own")
    suite.add_argument("--only", action="append", metavar="WORKLOAD", help="this workload of it (repeatable)")
    record = parser.add_argument_group("as for 'heaptape record'")
    record.add_argument("--stacks", nargs="?", const="", metavar="DEPTH")
    for name in ("latency", "usable", "describe"):
        record.add_argument(f"--{name}", action="store_true")
    record.add_argument("--preload", metavar="LIB")
    record.add_argument("--max-size", metavar="BYTES")


def _add_verify_fidelity(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "verify-fidelity",
        help="how far replays are from life, by running both",
        description="Runs each app (a recipe of workloads/apps) live on every allocator, records it once on glibc, "
        "replays the recording on every allocator, and prints how far the predictions are from life.",
    )
    parser.add_argument(
        "apps", nargs="*", metavar="APP", help="recipes by name (default: all that are in a set); results with --read"
    )
    parser.add_argument("-n", "--repeats", type=int, default=3, help="live runs and replays for CPU time (default 3)")
    parser.add_argument(
        "-a", "--allocator", action="append", metavar="NAME", help="repeatable (default: all that are found)"
    )
    parser.add_argument("--set", choices=["tuned", "held-out"], help="only this half of the apps")
    parser.add_argument("--touch", default="recorded", metavar="POLICY", help="as of replay (default recorded)")
    parser.add_argument("--results", metavar="FOLDER", help="keep raw results there, one file for each app")
    parser.add_argument(
        "--quick", action="store_true", help="measure memory and CPU time in the same live runs, which costs both some"
    )
    parser.add_argument("--live-only", action="store_true", help="only the live runs, for --live")
    parser.add_argument(
        "--live", metavar="FOLDER", help="take live runs from earlier results there; only record and replay anew"
    )
    parser.add_argument("--read", action="store_true", help="run nothing: the arguments are files of raw results")
    parser.add_argument("--write", metavar="F.md", help="write the certificate, as docs/FIDELITY.md is")
    parser.add_argument("--table", metavar="F.json", help="write the table of errors that compare and report carry")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is being run")


def make_parser() -> argparse.ArgumentParser:
    """The whole command line. C programs' subcommands are here for the help only: they read their own arguments."""
    parser = Parser(
        prog="heaptape",
        description="Record what a program asks of malloc, replay it into any allocator, report what each one costs.",
        epilog="Example: heaptape record -o redis.tape -- redis-server; heaptape replay redis.tape -o redis.json; "
        "heaptape report redis.json",
    )
    parser.add_argument("--version", action="version", version=f"heaptape {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (_, _, summary, _) in PROGRAMS.items():
        commands.add_parser(name, help=summary, add_help=False)
    _add_ctl(commands)
    _add_profile(commands)
    _add_replay(commands)
    _add_compare(commands)
    _add_report(commands)
    _add_allocators(commands)
    _add_workloads(commands)
    _add_verify_fidelity(commands)
    return parser


def _exec_program(name: str, arguments: Sequence[str], home: Home) -> int | NoReturn:
    program, leading, _, text = PROGRAMS[name]
    if not arguments or arguments[0] not in ("-h", "--help"):
        path = home.program(program)
        os.execv(path, [str(path), *leading, *arguments])
    print(text, end="")
    return 0


def _run(arguments: argparse.Namespace, home: Home) -> int:
    match arguments.command:
        case "ctl":
            from heaptape.cli.commands import ctl as command
        case "profile":
            from heaptape.cli.commands import profile as command
        case "replay":
            from heaptape.cli.commands import replay as command
        case "compare":
            from heaptape.cli.commands import compare as command
        case "report":
            from heaptape.cli.commands import report as command
        case "allocators":
            from heaptape.cli.commands import allocators as command
        case "verify-fidelity":
            from heaptape.cli.verify_fidelity import verify_fidelity as command
        case _:
            from heaptape.cli.commands import workloads as command
    return command(arguments, home)


def _told(error: OSError) -> str:
    """An error with the file that it is about: print names none, so what it left behind is tried again."""
    try:
        flush_standard_output()
    except HeaptapeError as lost:
        return str(lost)
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"


def _own_options(argv: Sequence[str]) -> bool:
    """What comes after -- is the pattern's; argparse would take it for names."""
    return list(argv[:2]) == ["workloads", "write"] and "--" in argv


def main(argv: Sequence[str], home: Home) -> int:
    """Runs the command and returns its exit status. Replaces the process for subcommands that are C programs."""
    # Python ignores SIGPIPE; a filter whose reader went away should just end, and programs that we exec inherit it.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # Ended by others, we too stop the engine and remove our files. What is ignored (nohup) stays ignored.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        if len(argv) > 1 and argv[0] == "convert" and "--help" not in argv:
            from heaptape.export.targets import convert, list_formats, wanted

            if argv[1:] == ["--list"]:
                return list_formats(home)
            if wanted(argv[1:]):
                return convert(argv[1:], home)
        if argv and argv[0] in PROGRAMS:
            return _exec_program(argv[0], argv[1:], home)
        parser = make_parser()
        if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
            parser.error(f"unknown command '{argv[0]}': there are {', '.join(COMMANDS)}")
        arguments = parser.parse_args(argv[: argv.index("--")] if _own_options(argv) else argv)
        arguments.own_options = argv[argv.index("--") + 1 :] if _own_options(argv) else []
        if arguments.command is None:
            parser.error("which command?")
        status = _run(arguments, home)
        flush_standard_output()
        return status
    except UsageError as error:
        print(f"heaptape: {error}", file=sys.stderr)
        return 2
    except HeaptapeError as error:
        if str(error):  # empty: a C program has told it already
            print(f"heaptape: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"heaptape: {_told(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
