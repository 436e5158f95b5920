# SPDX-License-Identifier: MIT
"""Other users of the machine reach the recorder's socket, and its name once it has ended."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import OUT, REPOSITORY, compile_c, info

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as two users")
VICTIM, ATTACKER, NOBODY = 61001, 61002, 65534  # user ids that need no names; a name space that lacks one says the last
NAME, SECRET = f"heaptape-test-{os.getpid()}", "0123456789abcdef"

# Binds the name, and answers as a recorder that does not know the secret. Prints how many bytes each connection sent.
IMPOSTOR = """
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(b"\\0" + sys.argv[1].encode())
listener.listen()
print("listens", flush=True)
connection, _ = listener.accept()
got = connection.recv(4096)
if got: connection.send(got[:8] + bytes(int(sys.argv[2]) - 8))
print(len(got), bytes.fromhex(sys.argv[3])[::-1] in got, flush=True)
"""

# Holds many connections to the recorder whose name is in /proc/net/unix, and replaces them all the time.
FLOOD = """
import socket, sys
held = []
print("floods", flush=True)
while True:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.setblocking(False)
    try: one.connect(b"\\0" + sys.argv[1].encode())
    except OSError: continue
    held.append(one)
    if len(held) > 700: held.pop(0).close()
"""

# Asks the recorder for its state.
ASK = """
import os, socket
name = os.environ["HEAPTAPE_SOCKET"].split(":")[0]
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
one.connect(b"\\0" + name.encode())
try:
    one.send(b"{\\"verb\\": \\"status\\", \\"pid\\": %d}" % int(name.split("-")[1]))
    answer = one.recv(4096)
except OSError: answer = b""
print("answered" if b"true" in answer else "refused")
"""

# Makes 200,000 calls.
CALLS = """
int main(void) { for (int i = 0; i < 100000; i++) { void *volatile object = malloc(16); free(object); } }
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Readable and writable by all, with copies of the recorder and its library."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o777)
        for file in (OUT / "libexec/heaptape-record", *(OUT / "lib").glob("libheaptape*.so")):
            (path / file.parent.name).mkdir(exist_ok=True)
            shutil.copy(file, path / file.parent.name)
        yield path


def as_user(user: int, *command: str | Path, **options: object) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(  # type: ignore[call-overload]
        [str(word) for word in command], user=user, group=user, extra_groups=[], text=True, stdout=pipe, **options
    )


def attached_to_impostor(folder: Path, impostor: int, by: int = VICTIM) -> tuple[str, str]:
    """What the impostor received of a victim's process, and what that process said."""
    fake = as_user(impostor, "/usr/bin/python3", "-c", IMPOSTOR, NAME, "4096", SECRET)
    assert fake.stdout.readline() == "listens\n"
    env = {"HEAPTAPE_SOCKET": f"{NAME}:{SECRET}", "LD_PRELOAD": str(folder / "lib" / "libheaptape.so")}
    victim = as_user(by, "/bin/true", env=env, stderr=subprocess.PIPE)
    _, said = victim.communicate(timeout=60)
    assert victim.returncode == 0
    return fake.communicate(timeout=60)[0], said


@pytest.mark.parametrize("impostor", [ATTACKER, NOBODY], ids=["attacker", "nobody"])
@pytest.mark.parametrize("by", [VICTIM, 0], ids=["user", "root"])
def test_another_users_listener_is_told_nothing(folder: Path, by: int, impostor: int) -> None:
    got, said = attached_to_impostor(folder, impostor, by)
    assert got == "0 False\n"
    assert said.startswith("heaptape: another user, or not the collector, has the collector's address: ")
    assert said.count("\n") == 1


def test_a_listener_without_the_secret_learns_none_and_is_not_believed(folder: Path) -> None:
    got, said = attached_to_impostor(folder, VICTIM)
    assert got.endswith(" False\n")
    assert not got.startswith("0 ")
    assert "this process is not recorded" in said


def begin_recording(folder: Path, user: int, script: str, *within: str) -> tuple[subprocess.Popen[str], str]:
    """Records a shell script that waits for a line first. Returns the name of the recorder's socket, too."""
    options = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": folder}
    recorder = as_user(
        user, *within, folder / "libexec" / "heaptape-record", "--strict", "--all-processes", "-o", "t.tape", "--",
        "sh", "-c", f'echo "$HEAPTAPE_SOCKET"; read line; {script}', **options,
    )  # fmt: skip
    return recorder, recorder.stdout.readline().split(":")[0]


@pytest.mark.parametrize("within", [(), ("unshare", "-Ur"), ("unshare", "-U")], ids=["initial", "mapped", "lacking"])
def test_only_its_user_controls_a_recorder_in_any_user_name_space(folder: Path, within: tuple[str, ...]) -> None:
    recorder, name = begin_recording(folder, VICTIM, f"/usr/bin/python3 -c '{ASK}'", *within)
    asker = as_user(ATTACKER, "/usr/bin/python3", "-c", ASK, env={"HEAPTAPE_SOCKET": f"{name}:"})
    assert asker.communicate(timeout=60)[0] == "refused\n"
    assert recorder.communicate("\n", timeout=60)[0] == "answered\n"
    assert recorder.returncode == 0


def test_another_users_connections_cost_no_recording(folder: Path) -> None:
    recorder, name = begin_recording(folder, VICTIM, "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done")
    flood = as_user(ATTACKER, "/usr/bin/python3", "-c", FLOOD, name)
    assert flood.stdout.readline() == "floods\n"
    try:
        _, said = recorder.communicate("\n", timeout=120)
    finally:
        flood.kill()
        flood.wait()
        flood.stdout.close()
    assert recorder.returncode == 0, said
    assert len(list(folder.glob("*.tape"))) == 11, said


def test_a_process_cannot_ask_in_the_name_of_one_that_has_executed_another_program(folder: Path) -> None:
    program = compile_c(folder / "inherits", REPOSITORY / "capture/test/trust/inherits_a_connection.c")
    recorder, _ = begin_recording(folder, 0, f"setpriv --reuid={VICTIM} --clear-groups {program}; sleep 0.3")
    printed, said = recorder.communicate("\n", timeout=60)
    assert printed == "refused\n", said
    assert info(folder / "t.tape")["events"] > 0


def test_a_users_program_ends_no_recording_of_another_user(folder: Path) -> None:
    """Nor those of root, whose recorder it is; what it ends are its own user's."""
    program = compile_c(folder / "overwrites", REPOSITORY / "capture/test/trust/overwrites_the_shared_page.c")
    calls = compile_c(folder / "calls", CALLS)
    as_attacker, as_victim = (f"setpriv --reuid={user} --clear-groups" for user in (ATTACKER, VICTIM))
    recorder, _ = begin_recording(
        folder, 0, f"{as_attacker} {program}; {as_victim} {calls}; {as_attacker} {calls}; exec {calls}"
    )
    _, said = recorder.communicate("\n", timeout=60)
    victims, attackers, roots = (
        int(count.replace(",", "")) for count in re.findall(r"calls \(\d+\): ([\d,]+) calls", said)
    )
    assert victims == roots == 200_000, said
    assert attackers < 100
