# SPDX-License-Identifier: MIT
"""The engine's environment is built: nothing of the caller's selects or sets its allocator, and the run says which
library's malloc was called.
"""

import json
import subprocess
from pathlib import Path

import pytest

from replay.test.engine import make
from tests.support import OUT, REPLAY, compile_c, refused, succeed

OTHER = OUT / "lib/libmagazine.so"
ASKED = OUT / "lib/libreference.so"
# What allocators read, and names that only one we have never seen would read.
INHERITED = {
    "LD_PRELOAD": str(OTHER),
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mmap_threshold=4096",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "4096",
    "MALLOC_TOP_PAD_": "50000000",
    "REFERENCE_TUNABLES": "stats=1:mmap_threshold=4096",
    "SOME_NEW_ALLOCATOR_OPTIONS": "arena=1",
}
OTHERS_MALLOC = """
#include <stddef.h>
static char heap[1 << 28];
static size_t used;
void *malloc(size_t bytes) { void *at = heap + used; used += (bytes + 15) / 16 * 16; return at; }
void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }
void *realloc(void *old, size_t bytes) {
  char *now = malloc(bytes);
  for (size_t at = 0; old && at < bytes && (char *)old + at < now; at++) now[at] = ((char *)old)[at];
  return now;
}
void free(void *object) { (void)object; }
unsigned long compressBound(unsigned long bytes) { return bytes + 1000; }
int compress2(void) { return -1; }
unsigned long crc32(unsigned long crc, const unsigned char *at, unsigned bytes) {
  crc = ~crc & 0xffffffff;
  for (; at && bytes > 0; bytes--) {
    crc ^= *at++;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return at ? ~crc & 0xffffffff : 0;
}
"""
# Maps 64 MiB where the system's link sets it up, as jemalloc does.
LINKS_READER = """
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) {
  char text[100];
  void *at = mmap(0, 1 << 26, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(at, 1, readlink("/etc/malloc.conf", text, sizeof text) > 0 ? 1 << 26 : 1);
}
"""
OWN_ETC = 'mount -t overlay overlay -o "lowerdir=/etc,upperdir=$0/up,workdir=$0/work" /etc && exec "$@"'
ZLIBS_VERSIONS = "ZLIB_1.2.0 { global: compressBound; };"


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("environment") / "a.work"
    make(path, ops=4000)
    return path


def memory(work, *options, env=None):
    done = succeed(REPLAY, "--pass", "memory", "--order", "recorded", *options, work, env=env or {})
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("preload", [(), ("--preload", ASKED)])
def test_nothing_inherited_reaches_the_allocator(work, preload):
    clean, said = memory(work, *preload)
    assert not said
    inherited, said = memory(work, *preload, env=INHERITED)
    exact = ("rss_anon_peak_bytes", "vm_size_peak_bytes", "syscalls", "page_faults", "malloc", "reference_stats")
    assert {key: inherited.get(key) for key in exact} == {key: clean.get(key) for key in exact}
    (line,) = said.splitlines()
    assert all(name in line for name in INHERITED if name != "SOME_NEW_ALLOCATOR_OPTIONS")


def test_the_run_names_the_library_whose_malloc_was_called(work):
    library = memory(work)[0]["malloc"]
    assert Path(library["path"]).name == "libc.so.6"
    assert len(bytes.fromhex(library["build_id"])) == 20
    assert memory(work, "--preload", ASKED)[0]["malloc"]["path"] == str(ASKED)


def test_a_link_of_the_systems_sets_no_allocator_up(work, tmp_path):
    library = tmp_path / "reader.so"
    compile_c(library, LINKS_READER, "-shared", "-fPIC")
    (tmp_path / "up").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "up/malloc.conf").symlink_to("narenas:1")
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", OWN_ETC, tmp_path]
    if subprocess.run([*isolated, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no namespace with another /etc")
    assert succeed(*isolated, "readlink", "/etc/malloc.conf").stdout == "narenas:1\n"
    run = json.loads(
        succeed(*isolated, REPLAY, "--pass", "memory", "--preload", ASKED, "--preload", library, work).stdout
    )
    assert run["rss_anon_peak_bytes"] < 1 << 26


def test_settings_that_were_given_count(work):
    settings = ("--preload", ASKED, "--env=REFERENCE_TUNABLES=stats=1")
    assert memory(work, *settings, env={"REFERENCE_TUNABLES": "stats=0"})[0]["reference_stats"]


def test_a_run_on_the_malloc_of_another_library_is_refused(work, tmp_path):
    """The engine's own libraries are before the C library."""
    (versions := tmp_path / "versions").write_text(ZLIBS_VERSIONS)
    compile_c(tmp_path / "libz.so.1", OTHERS_MALLOC, "-shared", "-fPIC", "-w", f"-Wl,--version-script={versions}")
    other = {"LD_LIBRARY_PATH": str(tmp_path)}
    says = f"the C library: not its malloc was replayed, but that of {tmp_path}/libz.so.1"
    refused(REPLAY, "--pass", "bare", work, env=other, says=says)


def test_a_preload_among_the_settings_is_refused(work):
    refused(REPLAY, "--pass", "bare", f"--env=LD_PRELOAD={OTHER}", work, status=2, says="is for --preload")
