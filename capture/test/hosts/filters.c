/* SPDX-License-Identifier: MIT */
/* filters WORDS... THEN: asks for filters of system calls, then calls malloc and free PAIRS times in each of 1 +
   THREADS threads and in a fork child, or executes a program. Prints one line.

   Words: "probe-N": a request that fails, or asks for nothing; "kill:N,N", "errno:N,N": installs a filter against these
   calls by prctl; "raw:N,N": one that kills, by an instruction of its own; "no-clock": forbids the cycle counter;
   "first": calls malloc once before; "fifo": real-time scheduling; "wait". THEN: "threads:N", or "exec PROGRAM...". */
#include "core/test/usual.h"
#include "set_filter.h"

#include <linux/seccomp.h>

enum { PAIRS = 20000, THREADS_MOST = 64 };

static pthread_barrier_t together;

static void *work(void *threads) {
  for (int i = 0; i < PAIRS; i++) {
    void *volatile object = malloc(60);
    free(object);
  }
  if (threads)
    pthread_barrier_wait(&together);
  return NULL;
}

static void probe(int number) {
  struct sock_fprog empty = {0, NULL};
  switch (number) {
  case 0:
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
    break;
  case 1:
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL);
    break;
  case 2:
    syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL);
    break;
  case 3:
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty);
    break;
  case 4:
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)8);
    break;
  case 5:
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0xff0000, (void *)-8l);
    break;
  case 6:
    syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, &empty);
    break;
  default:
    prctl(PR_SET_SECCOMP, 77, NULL);
  }
}

static int run_threads(int threads) {
  pthread_t thread[THREADS_MOST];
  int status = 0;
  pthread_barrier_init(&together, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&thread[i], NULL, work, &together) != 0)
      return 2;
  work(&together);
  for (int i = 0; i < threads; i++)
    pthread_join(thread[i], NULL);
  if (!threads)
    return 5;
  int child = fork();
  if (child == 0) {
    work(NULL);
    _exit(3);
  }
  waitpid(child, &status, 0);
  dprintf(1, "child %#x\n", (unsigned)status);
  return 5;
}

int main(int argc, char **argv) {
  for (char **word = argv + 1; *word; word++) {
    if (strncmp(*word, "probe-", 6) == 0)
      probe(atoi(*word + 6));
    else if (strncmp(*word, "kill:", 5) == 0)
      set_filter(*word + 5, SECCOMP_RET_KILL_PROCESS, 0);
    else if (strncmp(*word, "errno:", 6) == 0)
      set_filter(*word + 6, SECCOMP_RET_ERRNO | EPERM, 0);
    else if (strncmp(*word, "raw:", 4) == 0) {
      set_filter(*word + 4, SECCOMP_RET_KILL_PROCESS, 1);
      usleep(500000); /* the recorder takes a sample */
    } else if (strcmp(*word, "first") == 0)
      free(malloc(100));
    else if (strcmp(*word, "no-clock") == 0)
      prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    else if (strcmp(*word, "wait") == 0)
      usleep(300000); /* the recorder looks for programs that it does not follow */
    else if (strcmp(*word, "fifo") == 0 && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}) != 0)
      return 77;
    else if (strncmp(*word, "threads:", 8) == 0)
      return run_threads(atoi(*word + 8));
    else if (strcmp(*word, "exec") == 0)
      return execv(word[1], word + 1);
  }
  return argc < 0;
}
