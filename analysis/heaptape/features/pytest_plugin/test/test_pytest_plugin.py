# SPDX-License-Identifier: MIT
"""`pytest --heaptape` on planted tests: figures, limits, and how it works together with pytest's other features. The
long tests add a recording with call stacks and a second worker. Marking Python lines leaves other
tools' tracing as it was.
"""

import json
import os
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from heaptape.features.pytest_plugin.spans import Lines, limits_of

from tests.output_shapes import conforms
from tests.support import CONVERT, TIMEOUT_S, succeed

NOISE_BYTES = 24 << 10  # at most what pytest and Python themselves acquire in a test
PLANTS = """
import ctypes, os, signal, subprocess, sys, threading
import pytest

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
heap = pytest.mark.heap
"""
TESTS = (
    PLANTS
    + """
@pytest.fixture(scope="module")
def of_the_module():
    return bytearray(5_000_000)

@pytest.fixture
def own():
    block = libc.malloc(3_000_000)
    yield
    libc.free(block)

@heap(peak="1 MiB")
def test_peak():
    libc.free(libc.malloc(3_000_000))

@heap(growth=900_000)
def test_leak():
    helper()

def helper():
    libc.malloc(1_000_000)

@heap(allocations=10_000)
def test_many():
    for _ in range(20_000):
        libc.free(libc.malloc(8))

@heap(peak="8 MB", growth="200 KiB", allocations=5000)
def test_within(own):
    assert bytearray(4_000_000)

def test_wide(of_the_module):
    pass

@pytest.mark.parametrize("size", [100_000, 200_000])
def test_of_each(size):
    libc.malloc(size)

def test_cycle():
    one = [bytearray(6_000_000)]
    one.append(one)

def test_threads():
    held = threading.Barrier(4)
    def work():
        block = libc.malloc(2_000_000)
        held.wait(60)
        held.wait(60)
        libc.free(block)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    held.wait(60)
    held.wait(60)
    for thread in threads:
        thread.join()

def test_child():
    subprocess.run([sys.executable, "-c", "block = bytearray(50_000_000)"], check=True)

def test_fork():
    child = os.fork()
    if child == 0:
        libc.malloc(50_000_000)
        os._exit(0)
    os.waitpid(child, 0)

@heap(peak="1 MiB")
def test_pauses():
    here = ctypes.CDLL(None)
    here.heaptape_lib_pause()
    libc.malloc(10)
    here.heaptape_lib_resume()

@heap(peak=1)
def test_fails_anyway():
    libc.malloc(7_000_000)
    raise ValueError("of its own")

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass

@heap(peak=1)
@pytest.mark.xfail
def test_expected_to_fail():
    raise ValueError
"""
)


@dataclass
class Ran:
    status: int
    output: str
    errors: str
    tests: dict[str, dict]
    folder: Path


def start(folder: Path, options: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest in a separate folder, without this one's settings and its plugins, which take longest to load."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "HEAPTAPE_PYTEST"))}
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-p", "heaptape.features.pytest_plugin.plugin", "-q", *options]
    return subprocess.run(
        command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=TIMEOUT_S
    )


def ran(folder: Path, text: str, *options: str, **environment: str) -> Ran:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (folder / "test_it.py").write_text(text)
    done = start(folder, ["--heaptape", "--heaptape-json", "figures.json", *options], **environment)
    path = folder / "figures.json"
    if path.exists():
        conforms("pytest", path.read_bytes())
    tests = json.loads(path.read_text())["tests"] if path.exists() else []
    by_name = {test["name"].partition("::")[2]: test for test in tests}
    return Ran(done.returncode, done.stdout, done.stderr, by_name, folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run with all installed plugins."""
    options = ("--junitxml", "junit.xml", "--heaptape-tape", "kept.tape")
    return ran(tmp_path_factory.mktemp("whole"), TESTS, *options, PYTEST_DISABLE_PLUGIN_AUTOLOAD="")


def place_of(line: str) -> str:
    """The place of a line of TESTS."""
    return f"test_it.py:{[text.strip() for text in TESTS.splitlines()].index(line) + 1}"


def assert_about(measured: int, planted: int) -> None:
    """Asserts about the planted value, and never less."""
    assert planted <= measured <= planted + NOISE_BYTES


def test_tests_above_a_limit_fail_which_is_reported_and_no_others(whole: Ran) -> None:
    """Except one that hides calls from the recording."""
    failed = {name: test["exceeded"] for name, test in whole.tests.items() if test["outcome"] == "failed"}
    over = {"test_peak": ["peak_bytes"], "test_leak": ["growth_bytes"], "test_many": ["allocations"]}
    assert failed == over | {"test_fails_anyway": ["peak_bytes"]}
    assert whole.status == pytest.ExitCode.TESTS_FAILED
    # Hypothesis' plugin for trio runs it, without our LD_PRELOAD; the recorder sees it if it takes long enough.
    errors = [line for line in whole.errors.split("heaptape: ") if "not recorded: ldconfig: " not in line]
    assert errors == [""]


@pytest.mark.parametrize(
    ("name", "peak", "growth"),
    [
        ("test_peak", 3_000_000, 0),
        ("test_leak", 1_000_000, 1_000_000),
        ("test_within", 7_000_000, 0),
        ("test_of_each[100000]", 100_000, 100_000),
        ("test_of_each[200000]", 200_000, 200_000),
        ("test_cycle", 6_000_000, 0),
        ("test_threads", 6_000_000, 0),
        ("test_fails_anyway", 7_000_000, 7_000_000),
    ],
)
def test_figures_are_those_planted(whole: Ran, name: str, peak: int, growth: int) -> None:
    assert_about(whole.tests[name]["peak_bytes"], peak)
    assert_about(whole.tests[name]["growth_bytes"], growth)


def test_allocations_are_counted(whole: Ran) -> None:
    assert whole.tests["test_many"]["allocations"] >= 20_000
    assert whole.tests["test_wide"]["allocations"] < 10_000


@pytest.mark.parametrize("name", ["test_wide", "test_child", "test_fork"])
def test_wider_fixtures_and_other_processes_are_not_the_tests(whole: Ran, name: str) -> None:
    assert whole.tests[name]["peak_bytes"] < 1_000_000


def test_what_did_not_run_has_no_figures(whole: Ran) -> None:
    assert not {"test_skipped", "test_expected_to_fail"} & whole.tests.keys()


def test_a_failure_names_limit_measurement_and_python_line(whole: Ran) -> None:
    assert re.search(
        r"heaptape: peak 2\.8[67] MiB \(3,00\d,\d{3} bytes\), limit 1\.00 MiB \(1,048,576 bytes\)", whole.output
    )
    for line in ("libc.free(libc.malloc(3_000_000))", "libc.malloc(1_000_000)"):
        assert f"{place_of(line)}  {line}" in whole.output


def test_a_limit_that_could_not_be_held_fails_the_test(whole: Ran) -> None:
    (unmeasured,) = json.loads((whole.folder / "figures.json").read_text())["unmeasured"]
    assert unmeasured["name"] == "test_it.py::test_pauses"
    assert re.fullmatch(r"\d+ calls are missing from the recording", unmeasured["reason"])
    assert f"heaptape: not measured, so its limits are not held: {unmeasured['reason']}" in whole.output
    assert f"not measured: {unmeasured['reason']}: test_it.py::test_pauses" in whole.output


def test_a_test_that_fails_by_itself_is_reported_for_that(whole: Ran) -> None:
    assert "ValueError: of its own" in whole.output


def test_junit_files_have_figures_and_failures(whole: Ran) -> None:
    cases = {case.get("name"): case for case in ElementTree.parse(whole.folder / "junit.xml").iter("testcase")}
    assert len(cases) == len(whole.tests) + 3  # skipped, expected to fail, not measured
    for name, test in whole.tests.items():
        properties = {one.get("name"): one.get("value") for one in cases[name].iter("property")}
        assert properties["heaptape_peak_bytes"] == str(test["peak_bytes"])
        assert (cases[name].find("failure") is not None) == (test["outcome"] == "failed")


def test_the_highest_peaks_are_listed_first(whole: Ran) -> None:
    listed = whole.output.partition("what tests acquired")[2].splitlines()[2:5]
    peaks = [whole.tests[line.split("::")[1]]["peak_bytes"] for line in listed]
    assert peaks == sorted((test["peak_bytes"] for test in whole.tests.values()), reverse=True)[:3]


def test_reading_the_whole_recording_gives_the_same_figures(whole: Ran) -> None:
    """Each test was read from its beginning on, while the recording continued."""
    found = json.loads(succeed(CONVERT, "spans", whole.folder / "kept.tape").stdout)["spans"]
    once = {}
    for span in found:
        once.setdefault(span["name"].partition("::")[2], span)  # the second is for the sites
    assert whole.tests.keys() <= once.keys()
    for name, test in whole.tests.items():
        keys = ("peak_bytes", "growth_bytes", "growth_objects", "allocations", "allocated_bytes")
        assert {key: once[name][key] for key in keys} == {key: test[key] for key in keys}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_workers_of_xdist_measure_alike(whole: Ran, tmp_path: Path, workers: int) -> None:
    spread = ran(tmp_path, TESTS, "-p", "xdist", "-n", str(workers), "-k", "leak or within or fails")
    assert spread.status == pytest.ExitCode.TESTS_FAILED
    assert spread.tests.keys() == {"test_leak", "test_within", "test_fails_anyway"}
    for name, test in spread.tests.items():
        assert test["outcome"] == whole.tests[name]["outcome"]
        assert test["worker"] in ("gw0", "gw1")[:workers]
        assert abs(test["peak_bytes"] - whole.tests[name]["peak_bytes"]) <= NOISE_BYTES
    assert f"{place_of('libc.malloc(1_000_000)')}  libc.malloc(1_000_000)" in spread.output


def test_first_failure_ends_the_run_and_is_what_runs_next(tmp_path: Path) -> None:
    text = PLANTS + "@heap(peak=1000)\ndef test_over():\n    bytearray(9000)\n\ndef test_after():\n    pass\n"
    first = ran(tmp_path, text, "-x")
    assert (list(first.tests), first.status) == (["test_over"], pytest.ExitCode.TESTS_FAILED)
    again = ran(tmp_path, text, "--lf")
    assert list(again.tests) == ["test_over"]


def test_a_run_before_takes_what_is_acquired_once(tmp_path: Path) -> None:
    text = PLANTS + (
        "kept = []\n"
        "def once():\n    kept or kept.append(bytearray(1_000_000))\n\n"
        "def test_cold():\n    once()\n    kept.clear()\n\n"
        "@heap(warm_up=1, growth='100 KiB')\ndef test_warm():\n    once()\n"
    )
    tests = ran(tmp_path, text).tests
    assert tests["test_cold"]["peak_bytes"] >= 1_000_000
    assert (tests["test_warm"]["outcome"], tests["test_warm"]["peak_bytes"] < 100_000) == ("passed", True)


@pytest.mark.long
def test_c_call_stacks_name_the_sites_on_request(tmp_path: Path) -> None:
    text = PLANTS + "@heap(peak=1000)\ndef test_over():\n    bytearray(9_000_000)\n"
    output = ran(tmp_path, text, "--heaptape-sites", "stacks").output
    assert "by C call stack" in output
    assert "PyByteArray" in output or "bytearray" in output


def test_after_a_crash_the_recording_is_read(tmp_path: Path) -> None:
    text = PLANTS + (
        "def test_it():\n    libc.malloc(4_000_000)\n    libc.heaptape_lib_pause()\n    libc.malloc(10)\n"
        "    libc.heaptape_lib_resume()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    crashed = ran(tmp_path, text)
    assert crashed.status == 128 + 9
    assert re.search(r"^heaptape: [1-9]\d* calls are missing from \S+\.tape$", crashed.errors, re.MULTILINE)
    assert "heaptape: the process ended in test_it.py::test_it: until then peak 3.8" in crashed.errors


class Marker(NamedTuple):
    """Like pytest's marker, which would have to be declared to pytest here."""

    kwargs: dict[str, object]
    args: tuple = ()


def marked(*markers: Marker) -> Any:  # noqa: ANN401
    """The part of a test that limits_of uses."""
    return SimpleNamespace(nodeid="test_it.py::test_it", iter_markers=lambda name: markers)


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        (Marker({"peak": "20 parsecs"}), "heap(peak='20 parsecs'): expected bytes"),
        (Marker({"growth": -1}), "heap(growth=-1): expected bytes"),
        (Marker({"growth": True}), "heap(growth=True): expected bytes"),
        (Marker({"allocations": "5 KiB"}), "heap(allocations='5 KiB'): expected a whole number"),
        (Marker({"peek": 1}), "heap() takes no peek: did you mean 'peak'?"),
        (Marker({"size": 1}), "heap() takes no size: it takes peak, growth, allocations, warm_up"),
        (Marker({}, (1,)), "heap(1,): limits have names: heap(peak=1)"),
    ],
)
def test_a_wrong_limit_is_refused(marker: Marker, says: str) -> None:
    with pytest.raises(pytest.UsageError) as refused:
        limits_of(marked(marker))
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("20 MiB", 20 << 20), ("1.5KiB", 1536), ("2 MB", 2_000_000), ("7", 7), ("3 gib", 3 << 30)]
)
def test_bytes_are_given_in_units(text: str, size_bytes: int) -> None:
    assert limits_of(marked(Marker({"peak": text}))).given() == {"peak_bytes": size_bytes}


def test_the_closest_marker_holds_for_each_limit() -> None:
    limits = limits_of(marked(Marker({"peak": 1}), Marker({"peak": 2, "growth": 3})))
    assert limits.given() == {"peak_bytes": 1, "growth_bytes": 3}


def test_a_wrong_limit_ends_the_run_before_the_first_test(tmp_path: Path) -> None:
    wrong = ran(tmp_path, PLANTS + "def test_first():\n    pass\n\n@heap(peak='much')\ndef test_it():\n    pass\n")
    assert wrong.status == pytest.ExitCode.USAGE_ERROR
    assert "test_it.py::test_it: heap(peak='much'): expected bytes" in wrong.errors
    assert not wrong.tests


def test_without_a_recorder_one_line_says_so(tmp_path: Path) -> None:
    lost = ran(tmp_path, "def test_it():\n    pass\n", HEAPTAPE_PYTEST=str(tmp_path))
    assert lost.status == pytest.ExitCode.USAGE_ERROR
    assert lost.errors.strip() == (
        "ERROR: --heaptape: this process is not recorded, as libheaptape.so was not loaded into it"
    )


def test_a_program_that_calls_pytest_is_not_run_twice(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    options = ["-q", "-p", "heaptape.features.pytest_plugin.plugin", "--heaptape"]
    program = f"import pytest, sys; sys.exit(pytest.main({options}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "start pytest by its command" in done.stderr


def test_without_the_option_nothing_is_recorded_or_imported(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import ctypes, sys\nimport pytest\n\n@pytest.mark.heap(peak=1)\ndef test_it():\n    assert bytearray(9000)\n"
        "    assert not hasattr(ctypes.CDLL(None), 'heaptape_lib_mark')\n"
        "    ours = {name for name in sys.modules if name.startswith('heaptape.')}\n"
        "    assert ours == {'heaptape.' + name for name in\n"
        "        ('common', 'common.version', 'features', 'features.pytest_plugin', 'features.pytest_plugin.plugin')}\n"
    )
    done = start(tmp_path, ["--strict-markers"])
    assert (done.returncode, done.stdout.splitlines()[-1].split()[:2]) == (0, ["1", "passed"]), done.stdout
    assert "heaptape" not in done.stdout


def test_the_marker_is_described(tmp_path: Path) -> None:
    assert "@pytest.mark.heap(peak=None, growth=None" in start(tmp_path, ["--markers", "--heaptape"]).stdout


def trace_of_threads(frame: FrameType, event: str, argument: Any) -> None:  # noqa: ANN401
    """The trace function of another tool: a debugger, or a coverage tool."""


def test_tracing_of_threads_and_of_this_one_is_as_before(tmp_path: Path) -> None:
    before, of_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(trace_of_threads)
    try:
        with Lines(tmp_path, lambda mark: None).marked():
            assert threading.gettrace() is not trace_of_threads
        assert threading.gettrace() is trace_of_threads
        assert sys.gettrace() is before
    finally:
        threading.settrace(of_threads)  # type: ignore[arg-type]
