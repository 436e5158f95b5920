# SPDX-License-Identifier: MIT
"""Whose recorder is asked and believed, and what a reply may be."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.run import ctl

VALID = {
    "ok": True,
    "recorder": 1,
    "state": "x\x1b[2J",
    "recorded": 1,
    "processes": [{"pid": 1, "trace": "\u202e", "state": "\x9b"}],
}
IMPOSTOR = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
one.bind(b"\\0" + sys.argv[1].encode())
one.listen(5)
print("ready", flush=True)
while True:
    peer = one.accept()[0]
    print(repr(peer.recv(100)), flush=True)
"""
# Of 20 recorders' names; says at the end how many requests came.
SILENT = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
names = [f"heaptape-{os.getpid()}-{number:08x}" for number in range(20)]
held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for name in names]
for one, name in zip(held, names): one.bind(b"\\0" + name.encode()); one.listen(5); one.setblocking(False)
print(*names, flush=True)
sys.stdin.readline()
requests = 0
for one in held:
    try: requests += len(one.accept()[0].recv(100)) > 0
    except OSError: pass
print(requests)
"""


@pytest.fixture
def answering():
    """A socket of ours that answers each request with the bytes that it is called with; returns its name."""
    sockets = []

    def answer(reply: bytes) -> str:
        name = f"heaptape-{os.getpid()}-{secrets.token_hex(4)}"
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.bind(b"\0" + name.encode())
        one.listen(5)
        sockets.append(one)

        def serve() -> None:
            while True:
                try:
                    peer = one.accept()[0]
                except OSError:
                    return
                with peer:
                    peer.recv(1000)
                    peer.send(reply)

        threading.Thread(target=serve, daemon=True).start()
        return name

    yield answer
    for one in sockets:
        one.shutdown(socket.SHUT_RDWR)
        one.close()


@pytest.mark.parametrize(
    "reply",
    [b"", b"[" * 100000, b"null", b"7", b"\xff", b"{", b'{"ok"}', b'["\xff"]'],
    ids=lambda reply: repr(reply[:4]),
)
def test_what_is_no_object_is_no_reply(answering, reply):
    name = answering(reply)
    assert ctl.ask(name, "status", os.getpid()) is None


@pytest.mark.parametrize(
    "change", [{"recorder": []}, {"state": {}}, {"recorded": "x"}, {"processes": 7}, {"processes": [{"pid": "a"}]}]
)
def test_a_reply_of_another_shape_is_an_error(answering, monkeypatch, change):
    name = answering(json.dumps(VALID | change).encode())
    monkeypatch.setattr(ctl, "recorder_sockets", lambda: [name])
    with pytest.raises(HeaptapeError, match=f"the recorder at @{name}: "):
        ctl.command("status", os.getpid())


def test_texts_of_a_reply_control_no_terminal(answering, monkeypatch):
    name = answering(json.dumps(VALID).encode())
    monkeypatch.setattr(ctl, "recorder_sockets", lambda: [name])
    assert ctl.in_words(ctl.command("stop", os.getpid())).replace("\n", "").isprintable()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("within", [[], ["unshare", "-U"]], ids=["initial", "lacking"])
def test_another_users_socket_is_neither_asked_nor_believed(within):
    """Also in a user name space that has neither user."""
    name = f"heaptape-{os.getpid()}-ffffffff"
    arguments = [sys.executable, "-c", IMPOSTOR, name, "65534"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as impostor:
        assert impostor.stdout.readline() == "ready\n"
        ask = f"from heaptape.run import ctl; print(ctl.ask('{name}', 'stop', {os.getpid()}))"
        asked = subprocess.run([*within, sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True, check=True)
        assert asked.stdout == "None\n"
        assert impostor.stdout.readline() == "b''\n"  # not even the request
        impostor.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
def test_silent_sockets_of_another_user_keep_root_waiting_once(monkeypatch):
    """Root asks them, as they have the numbers of that user's processes. Each has 0.2 s, all together no more."""
    arguments = [sys.executable, "-c", SILENT, "65534"]
    monkeypatch.setattr(ctl, "TIMEOUT_S", 0.2)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as silent:
        names = silent.stdout.readline().split()
        monkeypatch.setattr(ctl, "recorder_sockets", lambda: names)
        assert list(ctl.asked("status")) == []
        assert silent.communicate("\n")[0] == "1\n"


def test_sockets_that_nobody_serves_keep_nobody_waiting(answering, monkeypatch):
    """Each would be waited for up to the timeout, and anybody can make many."""
    reply = answering(json.dumps(VALID).encode())
    crowded, waiting = [], []
    for number in range(100):
        name = f"heaptape-1-{number:08x}"
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.bind(f"\0{name}{os.getpid()}".encode())
        one.listen(0)
        crowded.append(one)
        for _ in range(2):
            waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            waiting[-1].setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting[-1].connect(one.getsockname())
    names = [one.getsockname()[1:].decode() for one in crowded]
    monkeypatch.setattr(ctl, "recorder_sockets", lambda: [*names, reply])
    assert ctl.command("status", os.getpid())["recorder"] == 1
    monkeypatch.setattr(ctl, "CROWDED_S", 0.1)
    assert [name for name, _ in ctl.asked("status", os.getpid())] == [reply]
    for one in (*crowded, *waiting):
        one.close()
