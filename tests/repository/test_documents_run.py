# SPDX-License-Identifier: MIT
"""The commands that a document shows for users succeed as they stand, in their order, in a fresh folder. Long: each
document takes a minute or so.

The folder is a user's: with a program, a service, recordings, libraries and tests under the names that the documents
use for what is the reader's. `ELSEWHERE` has the commands that are not run here, with the reason.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from heaptape.allocators.c_libraries import own_loader

from tests.repository.test_documents import ROOT, parts
from tests.support import OUT, RECORD, compile_c, made_once, succeed

FOR_USERS = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "use").glob("*.md")]
SMALL = ("memcached", "postgres", "redis", "sqlite3")  # of the corpus
FROM_NETWORK = "tests/test_packages.py"
ELSEWHERE = {
    "make test": "these are its tests",
    "heaptape allocators install": FROM_NETWORK,
    "heaptape replay prog.tape -a glibc -a glibc@": FROM_NETWORK,
    "heaptape advise prog.tape -a glibc -a glibc@": FROM_NETWORK,
}  # fmt: skip

# Objects that stay live, each among others that are freed: a reason for every command to find something. By its name
# it is a server too, or the load of one, whatever the arguments.
SERVERS = ("SERVER", "nginx", "pdns_server", "redis-server", "setpriv")
LOADS = ("CMD2", "ab", "dnsperf", "pgbench", "redis-benchmark")
PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
enum { KEPT = 1500, BETWEEN = 20 };
static void *kept[KEPT], *shorter[KEPT][BETWEEN];
__attribute__((noinline)) static void *parse_value(void) { return memset(malloc(48), 1, 48); }
static void *filled(size_t bytes) { return memset(malloc(bytes), 1, bytes); }
static int is(const char *path, const char *names) {
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *found = strstr(names, name);
  return found && (found == names || found[-1] == ' ') && strchr(" ", found[strlen(name)]);
}
static struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "served"};
static int ask(int peer) {
  char byte = 0;
  if (connect(peer, (struct sockaddr *)&at, sizeof at))
    return 1;
  for (int i = 0; i < 500; i++)
    if (write(peer, &byte, 1) != 1 || read(peer, &byte, 1) != 1)
      return 1;
  return 0;
}
static void serve(int peer) { /* until SIGTERM */
  char byte;
  unlink(at.sun_path);
  alarm(bind(peer, (struct sockaddr *)&at, sizeof at) || listen(peer, 9) ? 1 : 5);
  for (int one = accept(peer, NULL, NULL); read(one, &byte, 1) == 1 && write(one, &byte, 1) == 1;)
    free(filled(100));
  alarm(0);
  pause();
}
int main(int count, char **words) {
  int peer = socket(AF_UNIX, SOCK_STREAM, 0);
  if (is(words[0], LOADS))
    return ask(peer);
  for (int i = 0; i < KEPT; i++) {
    for (int j = 0; j < BETWEEN; j++)
      shorter[i][j] = filled(300);
    kept[i] = parse_value();
  }
  for (size_t round = 0; round < 3; round++)
    for (int i = 0; i < KEPT; i++)
      for (int j = 0; j < BETWEEN; j++) {
        free(shorter[i][j]);
        shorter[i][j] = j < 1 ? filled(8000 + 100 * round) : NULL;
      }
  for (int tick = 0; strstr(words[0], "service") && tick < 40; tick++, usleep(100000))
    free(filled(100));
  if (is(words[0], SERVERS))
    serve(peer);
  return kept[0] == NULL || count < 1;
}
"""
# The repository of an allocator, worse since one commit.
HISTORY = r"""
git() { command git -c user.name=a -c user.email=a@a "$@"; }
printf 'build/libmine.so: revision\n\tcp "$$(cat $<)" $@\n' >Makefile
printf 'demo:\n\tPATH=/usr/bin:/bin %s/tools/demo out\n' "$2" >>Makefile # of a checkout in which everything is made
git init -qb main && git add Makefile
for library in reference reference magazine magazine; do
  echo "$1/lib$library.so" >revision && git add revision && git commit -qm $library --allow-empty
done
git tag v1.2 HEAD~3
"""
# glibc's repository, with as much of its makefiles as is used: compiled, it is the system's.
GLIBC = r"""
mkdir -p glibc/malloc
printf '#!/bin/sh\necho "all: ; cp %s ." >Makefile\n' "$*" >glibc/configure
printf 'subdir_lib: ; cp %s $(objdir)/malloc.os\n' "${*: -1}" >glibc/malloc/Makefile
printf '$(objdir)/libc.so: $(objdir)/malloc.os ; cp $< $@\n' >glibc/Makefile
chmod +x glibc/configure
"""
# The worker before its scheduler: one that loses it while it ends may print a traceback.
EPILOGUE = "for one in $services; do kill $one; wait $one; done 2>/dev/null\n"
CERTIFICATES = ("CA_FILE", "SCHEDULER__CERT", "WORKER__CERT", "CLIENT__CERT")
SELF_SIGNED = (
    "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 -keyout - -out - 2>/dev/null >tls.pem"
)
PRELUDE = """
set -o pipefail
ended() { echo "$2 $1" >&9; }
dask() { command dask "$@" 9>&- & services="$! $services"; } # each in a terminal of its own
git() { if [ "$1" = clone ]; then rm -r old; else command git "$@"; fi; } # beside glibc/, which is there
if command -v my-service >/dev/null; then my-service & PID=$!; fi
"""


def commands(document: Path) -> Iterator[str]:
    """The commands of the blocks of `sh`, each with all of its lines."""
    for block in parts(document, "fence"):
        if block.info != "sh":
            continue
        command = ""
        for line in block.content.splitlines(keepends=True):
            command += line
            parsed = subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True)
            if parsed.stderr == "" and not command.endswith("\\\n"):
                yield command
                command = ""
        assert command == "", f"{document}: {command} does not end"


def elsewhere(command: str) -> bool:
    return any(command.startswith(one) for one in ELSEWHERE)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """A program with debugging information, and a recording of it."""

    def make(folder: Path) -> None:
        folder.mkdir()
        names = [f'-D{kind}="{" ".join(of)}"' for kind, of in (("SERVERS", SERVERS), ("LOADS", LOADS))]
        compile_c(folder / "CMD", PROGRAM, "-g", "-O1", *names)
        succeed(RECORD, "--stacks", "-o", folder / "F.tape", "--", folder / "CMD")

    return made_once(tmp_path_factory, "own", make)


@pytest.fixture
def reader(tmp_path: Path, own: Path) -> Path:
    """A user's folder."""
    (tmp_path / "bin").mkdir()
    for name in ("CMD", "my-program", "my-service", "benchmark", *SERVERS, *LOADS):
        (tmp_path / "bin" / name).symlink_to(own / "CMD")
    (tmp_path / "benchmark").symlink_to(own / "CMD")
    for name in ("F", "a", "b", "prog", "redis"):
        shutil.copy(own / "F.tape", tmp_path / f"{name}.tape")
    (tmp_path / "workloads" / "corpus").mkdir(parents=True)
    for name in SMALL:
        shutil.copy(ROOT / "workloads" / "corpus" / f"{name}.tape", tmp_path / "workloads" / "corpus")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bin").symlink_to(OUT / "bin")
    for folder in ("build", "build-main"):
        (tmp_path / folder).mkdir()
        for name in ("libfoo.so", "libmine.so"):
            shutil.copy(OUT / "lib" / "libreference.so", tmp_path / folder / name)
    loader = own_loader()
    assert loader
    subprocess.run(
        ["bash", "-ec", GLIBC, "bash", loader, *loader.parent.glob("lib[cm].so.6")], cwd=tmp_path, check=True
    )
    (tmp_path / "old").mkdir()
    shutil.copy(ROOT / "docs" / "atlas" / "atlas.json", tmp_path / "old")
    (tmp_path / "test_import.py").write_text("def test_import():\n    assert bytearray(100_000)\n")
    subprocess.run(["bash", "-ec", HISTORY, "bash", OUT / "lib", ROOT], cwd=tmp_path, check=True)
    subprocess.run(["bash", "-ec", SELF_SIGNED], cwd=tmp_path, check=True)
    return tmp_path


def run_all(folder: Path, lines: list[str], programs: Path = OUT / "bin") -> list[str]:
    """Runs the commands in one shell, with that heaptape. Returns those that failed, with what they printed."""
    script, said = PRELUDE, folder / ".said"
    for at, line in enumerate(lines):
        Path(f"{said}.{at}").touch()
        own = line
        for word, here in (("PID", "$PID"), ("HOST", "localhost"), ("/shared", "$PWD/shared")):
            own = re.sub(rf"(?<!\w){word}\b", here, own)
        script += f"exec >{said}.{at} 2>&1\n{own}ended $? {at}\n"
        if re.search(r"&\s*(#.*)?$", line.strip()):
            script += "sleep 1\n"  # as a user would take to type the next command
    read, write = os.pipe()
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{programs}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "analysis"),
        "PYTEST_ADDOPTS": "-p heaptape.features.pytest_plugin.plugin",  # an installed heaptape is found without
        "DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME": "tls",
        **{f"DASK_DISTRIBUTED__COMM__TLS__{one}": str(folder / "tls.pem") for one in CERTIFICATES},
    }
    environment.pop("PYTEST_CURRENT_TEST", None)
    with subprocess.Popen(
        ["bash", "-c", f"exec 9>&{write}\n{script}\n{EPILOGUE}wait"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=[write],
    ) as shell:
        os.close(write)
        ended = dict(line.split() for line in os.fdopen(read))
        shell.wait()
    printed = [(folder / f".said.{at}").read_text(errors="replace") for at in range(len(lines))]
    return [
        f"{line}exit status {ended.get(str(at))}: {text[-1500:]}"
        for at, (line, text) in enumerate(zip(lines, printed))
        if ended.get(str(at)) != "0" or "Traceback" in text
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "document", [one for one in FOR_USERS if list(commands(one))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_commands_of_a_document_succeed_in_their_order(document: Path, reader: Path) -> None:
    assert run_all(reader, [line for line in commands(document) if not elsewhere(line)]) == []


COMMAND = re.compile(r"(\$ |\w+=\S+ )*(\S*/)?(heaptape|pip|pytest|make|apt|apt-get|git) [a-z-]")


@pytest.mark.parametrize("document", FOR_USERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_of_a_command_is_missed(document: Path) -> None:
    others = [block for block in parts(document, "fence", "code_block") if block.info != "sh"]
    assert not {"bash", "shell", "console"} & {block.info for block in others}
    assert not [line for block in others for line in block.content.splitlines() if COMMAND.match(line)]


def test_no_exception_is_left_over() -> None:
    shown = [line for document in FOR_USERS for line in commands(document)]
    assert [one for one in ELSEWHERE if not any(line.startswith(one) for line in shown)] == []


WHOLE = [
    "cat <<END\nheaptape no command\nEND\n",
    "heaptape replay F \\\n  -o R\n",
    "for f in *; do\n  heaptape check $f\ndone\n",
    "sh -c 'make ||\n  exit 125'\n",
    "heaptape dump F |\n  head\n",
]


def test_a_command_has_all_of_its_lines(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("".join(f"```sh\n{one}{other}```\n" for one in WHOLE for other in WHOLE))
    assert list(commands(document)) == [command for one in WHOLE for other in WHOLE for command in (one, other)]
    document.write_text("1. so:\n   ```sh\n   heaptape check F\n   ```\n")
    assert list(commands(document)) == ["heaptape check F\n"]


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    failing = ["false | cat\n", "echo Traceback\n", "no-such-program <<END\n1\nEND\n", "(exit 3)\n", "exit\n", "true\n"]
    assert [found.partition("exit status")[0] for found in run_all(tmp_path, ["true\n", *failing])] == failing
