# SPDX-License-Identifier: MIT
"""What recording gives for static programs, by how they are linked, and its cost.

    python -m tests.bench.recording.static_programs [COMMAND...]

One C program (tests/programs/every_call.c) and one of Rust, linked in each way for which there is a compiler, then each
COMMAND, in quotes. CPU times are of one run each: they show the order of size. Valgrind's start alone takes 0.3 s.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support import RECORD, REPOSITORY, check, info

RUST = """fn main() {
    let mut kept = std::collections::BTreeMap::new();
    for i in 0..200_000u64 {
        kept.insert(i, vec![7u8; (i % 300) as usize]);
        if i % 3 == 0 { kept.remove(&(i / 2)); }
        std::hint::black_box(i.to_string());
    }
    println!("{}", kept.len());
}"""
C_OPTIONS = ["-D_GNU_SOURCE", "-O2", "-fno-builtin", "-pthread", str(REPOSITORY / "tests/programs/every_call.c")]
C_WAYS = {
    "C, glibc, dynamic": ["cc"],
    "C, glibc, -static": ["cc", "-static"],
    "C, glibc, -static-pie": ["cc", "-static-pie"],
    "C, glibc, -static -s": ["cc", "-static", "-s"],
    "C, musl, dynamic": ["musl-gcc"],
    "C, musl, -static": ["musl-gcc", "-static"],
}
RUST_WAYS = {
    "Rust, glibc, dynamic": ["rustc"],
    "Rust, glibc, +crt-static": ["rustc", "-C", "target-feature=+crt-static"],
    "Rust, glibc, +crt-static, strip": ["rustc", "-C", "target-feature=+crt-static", "-C", "strip=symbols"],
}


def run(command: list[str]) -> tuple[int, float, str]:
    """Its exit status, CPU seconds with those of its children, and standard error."""
    before = os.times()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return done.returncode, seconds, done.stderr


def row(name: str, command: list[str], folder: Path) -> str:
    tape = folder / "t.tape"
    tape.unlink(missing_ok=True)
    alone_s = run(command)[1]
    status, recorded_s, error = run([str(RECORD), "--quiet", "-o", str(tape), "--", *command])
    if not tape.exists():
        reason = error.strip().split(": ", 2)[-1].split(":")[0]
        return f"| {name} | refused, status {status}: {reason} | | |"
    history = "legal" if check(tape)["ok"] else "not legal"
    return f"| {name} | {info(tape)['footer']['events']:,} calls, {history} | {alone_s:.2f} | {recorded_s:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND")
    commands = parser.parse_args().commands
    print("| program | recorded | CPU seconds alone | recorded |\n|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder, program = Path(name), f"{name}/program"
        (folder / "main.rs").write_text(RUST)
        builds = [(way, [*build, *C_OPTIONS, "-o", program], ["3", "60000"]) for way, build in C_WAYS.items()]
        for way, build in RUST_WAYS.items():
            builds.append((way, [*build, "-O", f"{name}/main.rs", "-o", program], []))
        for way, build, arguments in builds:
            if shutil.which(build[0]):
                subprocess.run(build, check=True)
                print(row(way, [program, *arguments], folder))
        for command in commands:
            words = shlex.split(command)
            print(row(Path(words[0]).name, words, folder))


if __name__ == "__main__":
    main()
