/* SPDX-License-Identifier: MIT */
/* A program under a filter that kills it for every system call except the few that its allocator and its end need fills
   its ring many times, gets signals and survives; all is recorded, whether the filter was set by prctl or by
   syscall(SYS_seccomp). In strict mode, which also forbids the cycle counter, its calls are counted. */
#include "capture/test/hosts/recording.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 100000, BYTES = 60, LARGE_BYTES = 100 << 10, CAN_NOT = 77, WAYS = 3 };

static void handler(int signal) {
  (void)signal;
  free(keep(malloc(BYTES)));
}

static void call(void) {
  for (int i = 0; i < PAIRS; i++)
    free(keep(malloc(BYTES)));
  for (int i = 0; i < 10; i++)
    free(keep(malloc(LARGE_BYTES))); /* the OS pages of large objects are counted */
}

static int enter(int way) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (way == 0)
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  return way == 1 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
                  : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}

int host(void) {
  for (int way = 0; way < WAYS; way++) {
    int child = fork(), status;
    if (child == 0) {
      int self = getpid();
      signal(SIGUSR1, handler);
      free(keep(malloc(2 * LARGE_BYTES))); /* the heap is large enough before brk is forbidden */
      if (enter(way) != 0)
        _exit(CAN_NOT);
      call();
      if (way)
        for (int i = 0; i < 1000; i++)
          kill(self, SIGUSR1);
      call();
      if (write(1, "done\n", 5) != 5)
        syscall(SYS_exit, 2);
      syscall(SYS_exit, 3);
    }
    waitpid(child, &status, 0);
    if (status == CAN_NOT << 8) {
      puts("no seccomp filters here");
      return CAN_NOT;
    }
    printf("%d: %#x\n", way, (unsigned)status);
    fflush(stdout);
  }
  return 0;
}

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  (void)thread;
  ((int *)context)[0] += event->size_bytes == BYTES;
  ((int *)context)[1] += event->size_bytes == LARGE_BYTES;
}

int test(void) {
  same_as_bare(NULL, NULL);
  char paths[WAYS + 2][256];
  CHECK(list_traces(paths, WAYS + 2) == WAYS + 1, "not a trace for each process");
  int with_signals = 0, strict = 0;
  for (int i = 0; i <= WAYS; i++) {
    if (strcmp(paths[i], "t.tape") == 0)
      continue;
    int counts[2] = {0};
    struct recorded recorded = read_trace(paths[i], count, counts);
    if (recorded.dropped) {
      strict++;
      CHECK(recorded.dropped >= 4 * PAIRS + 40 && recorded.dropped <= 4 * PAIRS + 60, "%llu calls counted",
            (unsigned long long)recorded.dropped);
      continue;
    }
    CHECK(counts[0] == 2 * PAIRS || counts[0] == 2 * PAIRS + 1000, "%d small allocations", counts[0]);
    CHECK(counts[1] == 20, "%d large ones", counts[1]);
    with_signals += counts[0] > 2 * PAIRS;
  }
  CHECK(strict == 1 && with_signals == WAYS - 1, "%d strict, %d had signals", strict, with_signals);
  return 0;
}
