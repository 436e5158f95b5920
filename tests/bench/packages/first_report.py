# SPDX-License-Identifier: MIT
"""From `pip install` of a wheel to the first report, where the wheels that it needs are cached: wall time of each step
in seconds, and a count of what is installed. The wheels are fetched first, before the measurement. For an idle machine.

    make wheel && .venv/bin/python -m tests.bench.packages.first_report out/wheel/heaptape-*.whl [--rounds 3]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MIB = 1 << 20
PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


def run(*command: str | Path) -> None:
    """Runs a command; prints its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr}")


def seconds(work: Callable[[], None]) -> float:
    before = time.monotonic()
    work()
    return time.monotonic() - before


def one_round(wheel: Path, cache: Path, folder: Path) -> dict[str, float]:
    """Seconds of each step, in an environment that was just made."""
    python = folder / "venv" / "bin" / "python"
    heaptape, page = python.with_name("heaptape"), folder / "demo"
    steps: dict[str, Callable[[], None]] = {
        "python -m venv": lambda: run(sys.executable, "-m", "venv", folder / "venv"),
        "pip install": lambda: run(python, *PIP, "install", "--no-index", "--find-links", cache, wheel),
        "heaptape demo": lambda: run(heaptape, "demo", "-o", page),
    }
    return {name: seconds(step) for name, step in steps.items()}


def installed(folder: Path) -> str:
    """The contents of an environment beside pip and setuptools."""
    (site,) = folder.glob("venv/lib/python3*/site-packages")
    files = [path for path in site.rglob("*") if path.is_file() and path.relative_to(site).parts[0][:3] != "pip"]
    size_bytes = sum(path.stat().st_size for path in files)
    distributions = sum(not path.name.startswith(("pip-", "setuptools-")) for path in site.glob("*.dist-info"))
    return f"{distributions} distributions, {len(files)} files, {size_bytes / MIB:.1f} MiB (bytecode included)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    print(f"{wheel.name}: {wheel.stat().st_size / MIB:.2f} MiB")
    with tempfile.TemporaryDirectory(prefix="heaptape.") as name:
        folder = Path(name)
        cache = folder / "cache"
        run(sys.executable, *PIP, "download", "-d", cache, wheel)
        for number in range(arguments.rounds):
            steps = one_round(wheel, cache, folder / str(number))
            listed = ", ".join(f"{step} {taken:.1f} s" for step, taken in steps.items())
            print(f"round {number + 1}: {listed}; from pip to the report {sum(list(steps.values())[1:]):.1f} s")
        print(installed(folder / "0"))


if __name__ == "__main__":
    main()
