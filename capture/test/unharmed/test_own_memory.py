# SPDX-License-Identifier: MIT
"""The library's memory in the program: not in core dumps, not locked with the program's."""

from pathlib import Path

import pytest

from tests.support import RECORD, check, compile_c, run, succeed

LOCKS = """
static void *work(void *barrier) {
  for (int i = 0; i < 100; i++) { void *volatile p = malloc(60); free(p); }
  pthread_barrier_wait(barrier);
  return NULL;
}
int main(int argc, char **argv) {
  static pthread_barrier_t barrier; // threads may still be leaving it when main has returned
  pthread_t threads[30];
  char line[4096];
  unsigned long first, end;
  int ours = 0, dumped = 0, locked = 0, is_ours = 0;
  if (mlockall(atoi(argv[1])) != 0) return 77;
  pthread_barrier_init(&barrier, NULL, 31);
  for (int i = 0; i < 30; i++)
    if (pthread_create(&threads[i], NULL, work, &barrier) != 0) return 2;
  work(&barrier);
  FILE *file = fopen("/proc/self/smaps", "r");
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "%lx-%lx", &first, &end) == 2)
      is_ours = strstr(line, " rw") && strstr(line, "memfd:heaptape");
    if (strncmp(line, "VmFlags:", 8) || !is_ours) continue;
    ours++;
    dumped += !strstr(line, " dd");
    locked += strstr(line, " lo") != NULL;
  }
  printf("%d %d %d\\n", ours > 1, dumped, locked);
  return 0;
}
"""


@pytest.mark.parametrize("flags", [0o1, 0o2, 0o3])
def test_rings_are_neither_dumped_nor_locked_with_the_program(tmp_path: Path, flags: int) -> None:
    """Not those that are mapped later, either."""
    program = compile_c(tmp_path / "program", LOCKS, "-pthread")
    done = succeed(RECORD, "-o", tmp_path / "t.tape", "--", program, str(flags))
    assert done.stdout == "1 0 0\n"


def reads_kib(function: str, key: str) -> str:
    """A C function that returns a figure of /proc/self/status; -1: it is not there."""
    return f"""
static long {function}(void) {{
  char line[256];
  long kib = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "{key}: %ld", &kib);
  fclose(file);
  return kib;
}}
"""


WAITS_TWICE = """
static void *work(void *barrier) {
  free(malloc(60));
  pthread_barrier_wait(barrier);
  pthread_barrier_wait(barrier);
  return NULL;
}
"""

LIMITED = (
    """
#define TRY(call) (errno = 0, result = call, printf(#call ": %d, %d, %ld KiB\\n", result, errno, locked()))
static _Atomic int failed;
"""
    + reads_kib("locked", "VmLck")
    + """
static void limit(unsigned long kib) {
  struct rlimit limit = {kib << 10, kib << 10};
  setrlimit(RLIMIT_MEMLOCK, &limit);
}
static void *work(void *barrier) {
  for (int i = 0; i < 100; i++) { void *volatile p = malloc(60 + i); failed += !p; free(p); }
  if (barrier) pthread_barrier_wait(barrier);
  return NULL;
}
static void threads(int count) {
  pthread_barrier_t barrier;
  pthread_t thread[20];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  pthread_barrier_init(&barrier, NULL, count + 1);
  for (int i = 0; i < count; i++)
    if (pthread_create(&thread[i], &small, work, &barrier) != 0) _exit(3);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < count; i++) pthread_join(thread[i], NULL);
}
int main(int argc, char **argv) {
  int result;
  setvbuf(stdout, NULL, _IONBF, 0);
  limit(atoi(argv[2]));
  if (getuid() == 0 && setuid(65534) != 0) return 2;
  work(NULL);
  for (const char *step = argv[1]; *step; step++) {
    if (*step == '1') TRY(mlockall(MCL_CURRENT));
    if (*step == '2') TRY(mlockall(MCL_FUTURE));
    if (*step == '3') TRY(mlockall(MCL_CURRENT | MCL_FUTURE));
    if (*step == '7') TRY(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
    if (*step == '8') TRY(mlockall(8));
    if (*step == 's') TRY(syscall(SYS_mlockall, MCL_CURRENT | MCL_FUTURE));
    if (*step == 'm') TRY(mlock2(main, 4096, MLOCK_ONFAULT));
    if (*step == 'u') TRY(munlockall());
    if (*step == 'l') limit(64);
    if (*step == 't') threads(20);
    if (*step == 'f') {
      int status = 0;
      if (fork() != 0) return wait(&status), printf("%d %d\\n", status, failed), status != 0;
      work(NULL);
      printf("%ld KiB in the child\\n", locked());
    }
  }
  printf("%d mallocs failed\\n", failed);
  return 0;
}
"""
)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("limited") / "program", LIMITED, "-pthread")


@pytest.mark.parametrize(
    "steps", ["1t", "2t", "3t", "7t", "s", "21t", "32u1", "3u3t", "3l31", "8mt", "3f3t", "f3t"], ids=str
)
def test_mlockall_does_as_without_us_where_our_memory_exceeds_the_limit(tmp_path, limited, steps):
    """The same results, errno, and locked memory; the rings of a second bank are mapped, and no call is lost."""
    bare = succeed(limited, steps, "4096").stdout
    recorded = run(RECORD, "-o", tmp_path / "t.tape", "--", limited, steps, "4096")
    assert (recorded.status, recorded.stdout) == (0, bare)
    found = check(tmp_path / "t.tape")
    assert found["ok"]
    assert not found.get("dropped")
    assert found["threads"] == (21 if "t" in steps else 1)


def test_mlockall_fails_where_the_programs_own_memory_exceeds_the_limit(tmp_path: Path, limited: Path) -> None:
    bare = succeed(limited, "12t", "1024").stdout
    assert "mlockall(MCL_CURRENT): -1, 12" in bare
    assert succeed(RECORD, "-o", tmp_path / "t.tape", "--", limited, "12t", "1024").stdout == bare


SIZES = (
    """
"""
    + reads_kib("size", "VmSize")
    + WAITS_TWICE
    + """
int main(void) {
  pthread_barrier_t barrier;
  pthread_t thread[20];
  printf("%ld ", size());
  pthread_barrier_init(&barrier, NULL, 21);
  for (int i = 0; i < 20; i++) pthread_create(&thread[i], NULL, work, &barrier);
  pthread_barrier_wait(&barrier);
  printf("%ld\\n", size());
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 20; i++) pthread_join(thread[i], NULL);
  return 0;
}
"""
)


def test_our_memory_takes_6_mib_of_addresses_and_64_more_from_the_17th_thread_on(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "sizes", SIZES, "-pthread")
    one_arena = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}
    bare = [int(word) for word in succeed(program, env=one_arena).stdout.split()]
    done = succeed(RECORD, "-o", tmp_path / "t.tape", "--", program, env=one_arena)
    recorded = [int(word) for word in done.stdout.split()]
    first, then = ((there - here) / 1024 for here, there in zip(bare, recorded, strict=True))
    assert 5 <= first <= 6.5
    assert 69 <= then <= 71.5
