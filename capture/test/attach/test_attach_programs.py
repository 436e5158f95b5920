# SPDX-License-Identifier: MIT
"""Real programs under load are attached to, twice, and continue to serve.

Long: node, java and mariadb beside python3 and redis.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from capture.test.attach.attached import Attached, running
from tests.support import check, need

PYTHON = """
import threading
def run():
    while True:
        {str(i): bytes(700) for i in range(300)}
for _ in range(3):
    threading.Thread(target=run).start()
"""
NODE = "setInterval(() => { for (let i = 0; i < 100; i++) Buffer.alloc(20000); }, 1)"
JAVA = """
public class T {
  public static void main(String[] a) throws Exception {
    for (;;) {
      java.util.zip.Deflater d = new java.util.zip.Deflater();
      d.setInput(new byte[1000]);
      d.finish();
      d.deflate(new byte[1000]);
      d.end();
    }
  }
}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def accepts(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def record_twice(pid: int, folder: Path) -> None:
    """Both traces are legal and hold calls; the program lives."""
    for number in range(2):
        attached = Attached(pid, folder / f"{number}.tape")
        assert "everything is put back" in attached.stop_when_it_holds(4000)
        found = check(attached.trace)
        assert found["ok"], found
        assert found["events"] > 1000
        os.kill(pid, 0)


def test_python3(tmp_path: Path) -> None:
    with running(os.path.realpath(sys.executable), "-c", PYTHON) as process:
        record_twice(process.pid, tmp_path)


@contextmanager
def redis(folder: Path) -> Iterator[tuple[subprocess.Popen, int]]:
    port = free_port()
    command = [need("redis-server"), "--port", str(port), "--save", "", "--dir", str(folder)]
    with ExitStack() as stack:
        server = stack.enter_context(running(*command, ready=lambda: accepts(port)))
        load = [need("redis-benchmark"), "-p", str(port), "-n", "100000000", "-q", "-t", "set,lpush,lpop"]
        stack.enter_context(running(*load))
        yield server, port


def test_redis(tmp_path: Path) -> None:
    with redis(tmp_path) as (server, port):
        record_twice(server.pid, tmp_path)
        done = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, text=True, check=True)
        assert done.stdout == "PONG\n"


@pytest.mark.long
def test_node(tmp_path: Path) -> None:
    with running(need("node"), "-e", NODE) as process:
        record_twice(process.pid, tmp_path)


@pytest.mark.long
def test_java(tmp_path: Path) -> None:
    need("java")
    (tmp_path / "T.java").write_text(JAVA)
    with running("java", tmp_path / "T.java") as process:
        maps = Path(f"/proc/{process.pid}/maps")
        while "libjvm" not in maps.read_text():  # before that it may not have loaded the C library
            time.sleep(0.1)
        record_twice(process.pid, tmp_path)


@pytest.mark.long
def test_mariadb(tmp_path: Path) -> None:
    folder, place = tmp_path / "db", tmp_path / "socket"
    need("mariadb-install-db")
    folder.mkdir()
    user = ["--user=root"] if os.getuid() == 0 else []
    subprocess.run(
        ["mariadb-install-db", f"--datadir={folder}", *user], check=True, capture_output=True, start_new_session=True
    )
    server = [need("mariadbd"), f"--datadir={folder}", f"--socket={place}", "--skip-networking", *user]
    load = [need("mariadb-slap"), f"--socket={place}", "--auto-generate-sql", "--concurrency=4", "-i", "1000"]
    with running(*server, ready=place.exists) as process, running(*load, "--number-of-queries=10000"):
        record_twice(process.pid, tmp_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
