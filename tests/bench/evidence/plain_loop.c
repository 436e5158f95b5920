/* SPDX-License-Identifier: MIT */
/* The plainest replay of a trace, as a control that shares no code with heaptape: plain_loop OPS ROUNDS.

   OPS: u64 triples (kind: 0 malloc, 1 calloc, 2 realloc, 3 free; object's number; bytes). Repeats them ROUNDS times in
   one process, after one round that is not measured; all objects are freed at the end of a round. Writes to no object.
   Prints ns of the thread's CPU time per op. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

struct op {
  uint64_t kind, object, bytes;
};

static double cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void play(const struct op *ops, size_t count, void **objects) {
  for (const struct op *op = ops; op < ops + count; op++) {
    void **object = &objects[op->object];
    if (op->kind == 3)
      free(*object);
    *object = op->kind == 0   ? malloc(op->bytes)
              : op->kind == 1 ? calloc(1, op->bytes)
              : op->kind == 2 ? realloc(*object, op->bytes)
                              : NULL;
  }
}

int main(int argc, char **argv) {
  struct stat about;
  int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
  if (fd < 0 || fstat(fd, &about) != 0 || about.st_size == 0) {
    fprintf(stderr, "usage: plain_loop OPS ROUNDS\n");
    return 2;
  }
  const struct op *ops = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  size_t count = (size_t)about.st_size / sizeof *ops;
  uint64_t most = 0;
  for (size_t at = 0; at < count; at++)
    most = ops[at].object > most ? ops[at].object : most;
  void **objects = mmap(NULL, (most + 1) * sizeof *objects, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  long rounds = strtol(argv[2], NULL, 10);
  play(ops, count, objects);
  double begin = cpu_ns();
  for (long round = 0; round < rounds; round++)
    play(ops, count, objects);
  printf("%.3f\n", (cpu_ns() - begin) / (double)rounds / (double)count);
  return 0;
}
