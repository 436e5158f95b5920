/* SPDX-License-Identifier: MIT */
/* A storm of allocations with forks: threads allocate, resize and free through one table, so that most frees are of
   another thread's object, and sometimes a thread forks a child that continues with the objects it inherits. Children
   end in one of four ways: exit, _exit, SIGKILL, SIGABRT.

     fork_storm COUNTS SEED THREADS ROUNDS FORKS

   COUNTS is the file with the calls of each process, valid whenever it ends: for each five u64, its pid, calls of
   posix_memalign, reallocarray and free that have returned, and 1 once all its threads have ended. Nothing else in the
   processes calls the first two. */
#include "core/base/split_mix.h"
#include "core/test/usual.h"

enum { PROCESSES_MAX = 64, TABLE = 512, THREADS_MAX = 16 };

struct process {
  _Atomic uint64_t pid, memaligns, reallocs, frees, finished;
};

static struct process *processes, *mine;
static _Atomic int *forks_left; /* of the whole tree; shared like the counts */
static _Atomic(void *) table[TABLE];

struct storm {
  uint64_t random;
  unsigned rounds, threads;
  int depth;
};

static void begin_process(void) {
  for (int i = 0; i < PROCESSES_MAX; i++) {
    uint64_t nobody = 0;
    if (atomic_compare_exchange_strong(&processes[i].pid, &nobody, (uint64_t)getpid())) {
      mine = &processes[i];
      return;
    }
  }
  _exit(3);
}

static void run(struct storm storm);

static void end_child(uint64_t way) {
  switch (way % 4) {
  case 0:
    exit(0);
  case 1:
    _exit(0);
  case 2:
    kill(getpid(), SIGKILL);
    break;
  default:
    abort();
  }
}

static void fork_now(const struct storm *storm) {
  if (atomic_fetch_sub(forks_left, 1) <= 0)
    return;
  struct storm child = {storm->random * 31 + 7, storm->rounds / 2 + 1, 1 + storm->threads / 2, storm->depth + 1};
  if (fork() != 0)
    return;
  begin_process();
  run(child);
  end_child(child.random >> 7);
}

static void *blow(void *argument) {
  struct storm *storm = argument;
  for (unsigned round = 0; round < storm->rounds; round++) {
    uint64_t random = split_mix_next(&storm->random);
    void *block = NULL;
    if (posix_memalign(&block, 16, 1 + (random >> 40) % 500) != 0)
      _exit(4);
    atomic_fetch_add(&mine->memaligns, 1);
    if (random % 4 == 0) {
      block = reallocarray(block, 3, 1 + (random >> 50) % 300);
      atomic_fetch_add(&mine->reallocs, 1);
    }
    block = atomic_exchange(&table[(random >> 20) % TABLE], block);
    free(block);
    atomic_fetch_add(&mine->frees, 1);
    if ((random >> 8) % 2048 == 0)
      fork_now(storm);
  }
  return NULL;
}

static void run(struct storm storm) {
  pthread_t thread[THREADS_MAX];
  struct storm each[THREADS_MAX];
  for (unsigned i = 0; i < storm.threads; i++) {
    each[i] = storm;
    each[i].random = (storm.random + i) * 0x9e3779b97f4a7c15u | 1;
    if (pthread_create(&thread[i], NULL, blow, &each[i]) != 0)
      _exit(5);
  }
  for (unsigned i = 0; i < storm.threads; i++)
    pthread_join(thread[i], NULL);
  while (wait(NULL) > 0)
    ;
  atomic_store(&mine->finished, 1);
}

int main(int argc, char **argv) {
  size_t bytes = PROCESSES_MAX * sizeof(struct process) + sizeof(int);
  int fd = argc == 6 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
  struct storm storm = {0, 0, 0, 0};
  if (argc == 6)
    storm = (struct storm){strtoull(argv[2], NULL, 0), (unsigned)atoi(argv[4]), (unsigned)atoi(argv[3]), 0};
  if (fd < 0 || storm.threads == 0 || storm.threads > THREADS_MAX || ftruncate(fd, (off_t)bytes) != 0) {
    fputs("usage: fork_storm COUNTS SEED THREADS ROUNDS FORKS\n", stderr);
    return 2;
  }
  processes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (processes == MAP_FAILED)
    return 2;
  forks_left = (_Atomic int *)(processes + PROCESSES_MAX);
  atomic_store(forks_left, atoi(argv[5]));
  begin_process();
  run(storm);
  return 0;
}
