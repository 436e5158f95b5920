# SPDX-License-Identifier: MIT
"""Real programs run on each of our allocators as they do on libc's: same output, same exit status, no messages. Long:
about sixty more; `python -m tests.suites --on ALLOCATOR` runs others, a conversion by LibreOffice and test suites.
"""

import functools
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.real_programs import BASE, run_here
from tests.support import HEAPTAPE_HERE, OUT, Result, compile_c, need, record, run, succeed

# The allocators of allocators/part.mk.
OURS = ("reference", "magazine", "bucket")
PYTHON = """
import concurrent.futures, json, re, zlib
def work(n):
    rows = {str(i): [i, i * 2.5, 'value %d' % (i * n)] for i in range(3000)}
    text = json.dumps(rows)
    assert json.loads(text) == rows
    return zlib.crc32(text.encode()), len(re.findall('7', text))
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(12))))
import subprocess
print(subprocess.run(['echo', 'forked'], capture_output=True, text=True).stdout)
"""
SQL = """
create table item(id integer primary key, name text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000)
insert into item select i, 'item ' || (i * 7919 % 10007) from n;
create index item_name on item(name);
delete from item where id % 3 = 0;
vacuum;
select count(*), sum(id), max(name) from item;
"""
CPP = """
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>
struct alignas(64) Wide { char bytes[64]; };
static int calls;
static void handler() { if (++calls == 2) std::set_new_handler(nullptr); }
int main() {
  std::map<std::string, std::vector<int>> all;
  for (int i = 0; i < 20000; i++) all["key " + std::to_string(i % 997)].push_back(i);
  auto wide = std::make_unique<Wide>();
  bool aligned = reinterpret_cast<unsigned long>(wide.get()) % 64 == 0;
  volatile std::size_t huge = static_cast<std::size_t>(-1) / 4;
  bool thrown = false;
  std::set_new_handler(handler);
  try { operator delete(operator new(huge)); } catch (const std::bad_alloc &) { thrown = true; }
  bool null = operator new(huge, std::nothrow) == nullptr;
  std::printf("%zu %d %d %d %d\\n", all.size(), aligned, thrown, null, calls);
}
"""


EACH = pytest.mark.parametrize("allocator", OURS)  # python3 starts threads and forks
ONE = pytest.mark.parametrize("allocator", [OURS[0], *(pytest.param(a, marks=pytest.mark.long) for a in OURS[1:])])


@pytest.fixture
def library(allocator) -> str:
    return str(OUT / f"lib/lib{allocator}.so")


@functools.cache
def on_libc(*command: str | Path, **settings: str) -> Result:
    return succeed(*command, env={**settings, "LD_PRELOAD": ""})


def assert_same(library: str, *command: str | Path, **settings: str) -> str:
    """Asserts that the program does on our allocator what it does on libc's. Returns its output."""
    ours = run(*command, env={**settings, "LD_PRELOAD": library})
    assert ours == on_libc(*command, **settings)
    return ours.stdout


@EACH
@pytest.mark.long
@pytest.mark.parametrize("name", BASE)
def test_program_does_the_same(name, library):
    assert run_here(BASE[name], library) == here_on_libc(name)


@functools.cache
def here_on_libc(name: str) -> object:
    return run_here(BASE[name], "")


@EACH
def test_python(library):
    assert "forked" in assert_same(library, "/usr/bin/python3", "-c", PYTHON, PYTHONMALLOC="malloc")


@pytest.fixture(scope="module")
def cpp_program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cpp")
    return compile_c(folder / "operators", CPP, "-std=c++17", "-Wno-alloc-size-larger-than", compiler="g++")


@EACH
def test_cpp_operators(library, cpp_program):
    assert assert_same(library, cpp_program) == "997 1 1 1 2\n"


@ONE
def test_redis(library, tmp_path):
    need("redis-server")
    socket = tmp_path / "socket"
    options = ("--unixsocket", str(socket), "--port", "0", "--save", "", "--io-threads", "2")
    with subprocess.Popen(
        ["redis-server", *options, "--lazyfree-lazy-user-del", "yes", "--dir", str(tmp_path)],
        env={**os.environ, "LD_PRELOAD": library},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            for _ in range(100):
                if socket.exists():
                    break
                time.sleep(0.05)
            load = ("redis-benchmark", "-s", socket, "-q", "-c", "10", "-n", "300", "-r", "90")
            assert run(*load, "-t", "set,lpush,hset,zadd").status == 0
            assert int(run("redis-cli", "-s", socket, "dbsize").stdout) > 80
            assert run("redis-cli", "-s", socket, "flushall", "async").stdout == "OK\n"
            run("redis-cli", "-s", socket, "shutdown", "nosave")
            assert server.wait(20) == 0
            assert server.stderr.read() == ""
        finally:
            server.kill()  # else a failure would wait for it forever


@pytest.fixture(scope="module")
def tape(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sqlite3") / "a.tape"
    record(path, "sqlite3", ":memory:", SQL)
    return path


@EACH
def test_counters_are_in_the_results(allocator, tape, tmp_path):
    results = tmp_path / "a.json"
    replay = ("replay", "-a", f"{allocator}:stats", "-a", allocator, "-n", "1", "--passes", "bare", "-o", results, tape)
    assert run(HEAPTAPE_HERE, *replay).status == 0
    counting, plain = json.loads(results.read_text())["runs"]
    if counting["variant"] != "stats":
        counting, plain = plain, counting
    assert max(counting["reference_stats"].values()) > 10000
    assert "reference_stats" not in plain
