/* SPDX-License-Identifier: MIT */
/* A host that puts itself under a seccomp filter which kills processes that call mincore survives, a sample later, and
   its trace has no resident OS pages of objects that it releases from then on. */
#include "capture/test/hosts/recording.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { OBJECT_BYTES = 1 << 20, CAN_NOT = 77 };

static void release_one(void) {
  char *object = keep(malloc(OBJECT_BYTES));
  memset(object, 1, OBJECT_BYTES);
  free(object);
}

/* The number of the recorder's read calls; 0 where the kernel does not report it. */
static unsigned long reads_of_recorder(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/io", getppid());
  FILE *file = fopen(path, "r");
  unsigned long reads = 0;
  if (!file || fscanf(file, "rchar: %*u wchar: %*u syscr: %lu", &reads) != 1)
    reads = 0;
  if (file)
    fclose(file);
  return reads;
}

/* Waits until the recorder has taken some more samples of us, of two reads each. */
static void wait_for_samples(void) {
  enum { SAMPLES = 10, LOOKS = 60000 };
  unsigned long before = reads_of_recorder();
  struct timespec pause = {before ? 0 : 1, 2000000};
  for (int look = 0; look < LOOKS; look++) {
    nanosleep(&pause, NULL);
    if (!before || reads_of_recorder() >= before + SAMPLES * 2)
      return;
  }
}

int host(void) {
  release_one();
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the call's number */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return CAN_NOT;
  wait_for_samples();
  release_one();
  return 0;
}

static int large, known;

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  (void)context;
  (void)thread;
  large += event->call == CALL_malloc && event->size_bytes == OBJECT_BYTES;
  known += event->touched_os_pages != 0;
}

int test(void) {
  int status = record_self(NULL);
  if (status == CAN_NOT << 8) {
    puts("no seccomp filters here");
    return 77;
  }
  CHECK(status == 0, "the host ended with wait status %#x", status);
  read_trace("t.tape", count, NULL);
  CHECK(large == 2 && known == 1, "%d large objects, %d known", large, known);
  return 0;
}
