# SPDX-License-Identifier: MIT
"""A server that is put under a load: it is recorded while it answers, ends afterwards, and runs again so."""

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from heaptape.advise.load import ENDED, Load, listening
from heaptape.advise.programs import Wanted, record, seconds_of_a_run
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.common.process import descendants

from tests.support import call_heaptape, compile_c

SERVER = """
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int ready_s = argc > 2 ? atoi(argv[2]) : 0, left = argc > 3 ? atoi(argv[3]) : -1;
  sleep(ready_s);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
  int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 9)) return 1;
  for (;;) {
    int c = accept(s, 0, 0);
    char byte;
    while (read(c, &byte, 1) == 1) {
      char *object = malloc(1000);
      memset(object, byte, 1000);
      if (left-- == 0) abort();
      write(c, object, 1);
      free(object);
    }
    close(c);
  }
}
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    for _ in range(500):
        peer.sendall(b"x")
        assert peer.recv(1) == b"x"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("load") / "server", SERVER, "-O1")


@pytest.fixture
def port():
    return 20_000 + os.getpid() % 20_000


def client(tmp_path, port):
    path = tmp_path / "client.py"
    path.write_text(CLIENT)
    return shlex.join([sys.executable, str(path), str(port)])


def test_a_server_is_advised_by_the_requests_of_its_load(server, port, tmp_path):
    words = ("--load", client(tmp_path, port), "-a", "glibc", "--budget", "0", "--json", "--", server, str(port))
    done = call_heaptape("advise", *words)
    assert done.status == 0, done.stderr
    workload = json.loads(done.stdout)["workload"]
    assert workload["program"] == "server"
    assert 1000 <= workload["ops"] < 1100  # a malloc and a free for each request


def test_the_recorder_is_not_taken_for_a_server_that_is_not_ready_yet(server, port, tmp_path):
    words = ("--load", client(tmp_path, port), "-a", "glibc", "--budget", "0", "--json", "--", server, str(port), "1")
    done = call_heaptape("advise", *words)
    assert done.status == 0, done.stderr


def test_a_server_that_dies_under_its_load_is_said(server, port, tmp_path):
    words = ("--load", client(tmp_path, port), "--budget", "0", "--", server, str(port), "0", "9")
    done = call_heaptape("advise", *words)
    assert done.status == 1
    assert done.stderr.splitlines()[-1].endswith("; the server was ended by SIGABRT")


def test_the_descendant_that_listens_is_found_and_asked_to_end(server, port, tmp_path):
    with subprocess.Popen(["sh", "-c", f"{server} {port} & wait"]) as shell:
        load = Load(client(tmp_path, port))
        load.begin(shell.pid)
        shell.wait()
        load.end()
    assert listening(shell.pid) is None
    assert descendants(shell.pid) == {}


def test_a_run_without_a_recorder_is_timed_by_its_requests(server, port, tmp_path):
    """Nothing stands between us and the server then."""
    assert seconds_of_a_run([str(server), str(port)], Load(client(tmp_path, port)), 60.0) < math.inf


@pytest.mark.parametrize(
    ("server_is", "load", "why"),
    [("true", "true", "ended before it listened"), ("", "false", "exit status 1"), ("", "/no/such", "No such file")],
)
def test_a_load_that_fails_is_said(server, port, server_is, load, why):
    made = Load(load)
    with subprocess.Popen(["sh", "-c", f"{server_is or f'{server} {port}'} & wait"]) as shell:
        made.begin(shell.pid)
        shell.wait()
        with pytest.raises(HeaptapeError, match=why):
            made.end()


def test_a_server_that_can_not_be_started_is_said():
    done = call_heaptape("advise", "--load", "true", "--budget", "0", "--", "/no/such")
    assert done.status == 1
    assert "listened" in done.stderr.splitlines()[-1]
    assert "/no/such: no such program" in done.stderr.splitlines()[-1]


def test_a_server_that_leaves_the_foreground_is_said(server, port, tmp_path):
    """The load goes on until the shell that began the server has ended."""
    number, begun = tmp_path / "number", tmp_path / "begun"
    made = Load(f"sh -c 'touch {begun}; while kill -0 $(cat {number}); do sleep 0.05; done'")
    with subprocess.Popen(["sh", "-c", f"{server} {port} & read line"], stdin=subprocess.PIPE) as shell:
        number.write_text(str(shell.pid))
        made.begin(shell.pid)
        while not begun.exists():
            time.sleep(0.01)
        shell.communicate()
        with pytest.raises(HeaptapeError, match="stay in the foreground"):
            made.end()
    assert listening(os.getpid()) is None


def running():
    """Our descendants: other tests of this worker may have left some."""
    return {number for number, one in descendants(os.getpid()).items() if one.state not in ENDED}


def test_a_server_that_is_in_the_background_before_it_listens_is_ended(server, port):
    before = running()
    made = Load("true")
    with subprocess.Popen(["sh", "-c", f"{server} {port} 1 &"]) as shell:
        os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)
        made.begin(shell.pid)
        shell.wait()
        with pytest.raises(HeaptapeError, match="stay in the foreground"):
            made.end()
    assert running() == before


def test_workers_that_outlive_their_server_are_ended(server, port):
    before = running()
    made = Load("true")
    with subprocess.Popen(["sh", "-c", f"sleep 1000 & exec {server} {port}"]) as shell:
        made.begin(shell.pid)
        shell.wait()
        made.end()
    assert running() == before


def test_a_load_that_waits_for_a_dead_server_is_ended(server, port, tmp_path, monkeypatch):
    monkeypatch.setattr("heaptape.advise.load.LAST_REQUESTS_S", 0.1)
    begun = tmp_path / "begun"
    made = Load(f"sh -c 'touch {begun}; exec sleep 1000'")
    with subprocess.Popen([str(server), str(port)]) as process:
        made.begin(process.pid)
        while not begun.exists():
            time.sleep(0.01)
        process.kill()
        with pytest.raises(HeaptapeError, match="sh: exit status -9; the server was ended by SIGKILL"):
            made.end(process.wait())


def test_a_load_that_takes_longer_than_there_is_time_is_ended(server, port, tmp_path, monkeypatch):
    monkeypatch.setattr("heaptape.advise.load.LAST_REQUESTS_S", 0.1)
    load = Load("sleep 1000")
    with pytest.raises(HeaptapeError, match="no time for its requests"):
        record([str(server), str(port)], tmp_path, default_home(), Wanted("", 0.0, load, 8, 1))
    assert load._client is None or load._client.poll() is not None


def test_a_server_that_ignores_sigterm_is_killed(server, port, tmp_path, monkeypatch):
    monkeypatch.setattr("heaptape.advise.load.PATIENCE_S", 1.0)
    load = Load("true")
    with subprocess.Popen(["sh", "-c", f"trap '' TERM; exec {server} {port}"]) as process:
        load.begin(process.pid)
        assert process.wait() == -signal.SIGKILL
        load.end(process.returncode)
