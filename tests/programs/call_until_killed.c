/* SPDX-License-Identifier: MIT */
/* Calls malloc's API in several threads until it is killed, and counts each call in a shared file once it has returned.
   So a recording of the process must hold at least the calls in the file, whenever the SIGKILL comes.

   call_until_killed FILE THREADS. The file: u64 pid, then for each thread four u64: calls of posix_memalign,
   reallocarray and free that have returned, and 0. Nothing else in the process calls the first two. */
#include "core/test/usual.h"

enum { MAX_THREADS = 64, SLOTS = 256 };

struct returned {
  _Atomic uint64_t memaligns, reallocs, frees, unused;
};

struct shared {
  _Atomic uint64_t pid;
  struct returned thread[MAX_THREADS];
};

static struct shared *shared;
static _Atomic(void *) table[SLOTS];

static void done(_Atomic uint64_t *counter) {
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_release);
}

static void *call_for_ever(void *argument) {
  struct returned *returned = argument;
  uint64_t random = (uint64_t)(returned - shared->thread) + 1;
  for (;;) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    void *block = NULL;
    if (posix_memalign(&block, 16, 1 + (random >> 40) % 500) != 0)
      exit(1);
    done(&returned->memaligns);
    if ((random >> 33) % 4 == 0) {
      block = reallocarray(block, 3, 1 + (random >> 50) % 300);
      done(&returned->reallocs);
    }
    block = atomic_exchange(&table[(random >> 20) % SLOTS], block);
    free(block);
    done(&returned->frees);
  }
  return NULL;
}

int main(int argc, char **argv) {
  unsigned threads = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
  int fd = argc == 3 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
  if (fd < 0 || threads == 0 || threads > MAX_THREADS || ftruncate(fd, sizeof *shared) != 0) {
    fputs("usage: call_until_killed FILE THREADS\n", stderr);
    return 2;
  }
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shared == MAP_FAILED)
    return 1;
  atomic_store(&shared->pid, (uint64_t)getpid());
  pthread_t thread;
  for (unsigned t = 0; t < threads; t++)
    if (pthread_create(&thread, NULL, call_for_ever, &shared->thread[t]) != 0)
      return 1;
  pthread_join(thread, NULL);
  return 0;
}
