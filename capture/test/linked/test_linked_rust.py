# SPDX-License-Identifier: MIT
"""Rust programs with the allocator of a crate: each of its calls is recorded, compared with Valgrind's count.

Long: cargo fetches and compiles two allocators. Adds to test_linked_allocators.py what compilers make of real ones.
"""

import platform
import re
from pathlib import Path

import pytest

from tests.support import info, need, proved, record, run, succeed

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="functions are redirected on x86-64 alone"),
]

BUILD_S = 1800
MANIFEST = """
[package]
name = "servers"
version = "0.1.0"
edition = "2021"
[[bin]]
name = "jemalloc"
path = "jemalloc.rs"
[[bin]]
name = "mimalloc"
path = "mimalloc.rs"
[dependencies]
tikv-jemallocator = "=0.5.4"
mimalloc = { version = "=0.1.52", default-features = false }
"""
ALLOCATORS = {"jemalloc": "tikv_jemallocator::Jemalloc", "mimalloc": "mimalloc::MiMalloc"}
SOURCE = """
#[global_allocator]
static ALLOCATOR: TYPE = TYPE;
fn work(thread: u64) -> usize {
    let mut kept = std::collections::BTreeMap::new();
    for i in 0..3000u64 {
        kept.insert(i, vec![thread as u8; (i % 300) as usize]);
        if i % 3 == 0 {
            kept.remove(&(i / 2));
        }
        let mut text = String::new();
        for k in 0..10 {
            text.push_str(&k.to_string());
        }
        std::hint::black_box(&text);
    }
    kept.len()
}
// Until its input ends: two threads work, and each byte of it is answered by 1,000 objects and a line.
fn serve() {
    use std::io::{Read, Write};
    for t in 0..2u64 {
        std::thread::spawn(move || loop {
            work(t);
        });
    }
    let mut byte = [0u8; 1];
    while std::io::stdin().read(&mut byte).unwrap() == 1 {
        for _ in 0..1000 {
            std::hint::black_box(Vec::<u8>::with_capacity(4243));
        }
        std::io::stdout().write_all(b"\n").unwrap();
        std::io::stdout().flush().unwrap();
    }
}
fn main() {
    if std::env::args().count() > 1 {
        return serve();
    }
    let threads: Vec<_> = (0..4u64).map(|t| std::thread::spawn(move || work(t))).collect();
    println!("{}", threads.into_iter().map(|t| t.join().unwrap()).sum::<usize>());
}
"""
# Events, and the functions that the program calls for them. mi_free is called by mi_realloc_aligned, too.
CALLED = {
    "jemalloc": {"malloc": ["_rjem_malloc"], "free_sized": ["_rjem_sdallocx"], "realloc": ["_rjem_realloc"]},
    "mimalloc": {"memalign": ["mi_malloc_aligned", "mi_zalloc_aligned"], "realloc": ["mi_realloc_aligned"]},
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both."""
    need("cargo", "valgrind")
    folder = tmp_path_factory.mktemp("rust")
    (folder / "Cargo.toml").write_text(MANIFEST)
    for name, kind in ALLOCATORS.items():
        (folder / f"{name}.rs").write_text(SOURCE.replace("TYPE", kind))
    if run("cargo", "fetch", cwd=folder, timeout_s=BUILD_S).status != 0:
        pytest.skip("crates can't be fetched")
    target = folder / "target"
    where = ("--target-dir", target, "--manifest-path", folder / "Cargo.toml")
    succeed("cargo", "build", "--release", *where, timeout_s=BUILD_S)
    return target / "release"


def counted(program: Path, function: str) -> int:
    """How often Valgrind's tool lackey sees the function entered."""
    said = succeed("valgrind", "--tool=lackey", f"--fnname={function}", program).stderr
    found = re.search(r"Counted ([\d,]+) calls? to", said)
    assert found, said
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("name", sorted(ALLOCATORS))
def test_each_call_of_a_crates_allocator_is_recorded(name: str, programs: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.tape"
    assert record(trace, programs / name).stdout == run(programs / name).stdout
    proved(trace, "dropped", "unseen_frees")
    calls = info(trace)["calls"]
    libcs = 64  # calls of libc's own malloc, at most: for threads and the loader
    for call, functions in CALLED[name].items():
        seen = sum(counted(programs / name, function) for function in functions)
        assert seen > 1000
        assert seen <= calls[call] <= seen + libcs, call
