/* SPDX-License-Identifier: MIT */
/* A program that marks its phases, and whose accesses in them are known: test_bursts.py has them. Usage: bursts phases
   ROUNDS | fork | exec | walk ROUNDS */
#include "capture/wire/heaptape.h"
#include "core/test/usual.h"

enum { OLD = 1088, NEW = 1104, SENTINEL = 1120, OLD_OBJECTS = 40, NODES = 16384, NODE = 192 };

static volatile char *old[OLD_OBJECTS], *sentinel;

static void work(int seed) {
  unsigned random = (unsigned)seed;
  for (int step = 0; step < 2000; step++) {
    random = random * 1664525 + 1013904223;
    old[random >> 16 & 31][random >> 8 & 1023]++;
    if (step % 50 == 0) {
      volatile char *new = malloc(NEW);
      new[step / 50] = 1;
      free((void *)new);
    }
  }
}

/* A burst's first and last accesses are known. */
static void burst(int seed) {
  heaptape_mark("begin");
  sentinel[16] = 1;
  work(seed);
  sentinel[32] = 1;
  heaptape_mark("end");
}

static void phases(int rounds) {
  for (int round = 0; round < rounds; round++) {
    work(1);
    burst(round);
    work(2);
  }
}

static void fork_in_a_burst(void) {
  heaptape_mark("begin");
  if (fork() == 0) {
    volatile char *own = malloc(NEW);
    own[16] = 1;
    heaptape_mark("end");
    own[32] = 1;
    exit(0);
  }
  wait(NULL);
  sentinel[16] = 1;
  heaptape_mark("end");
  sentinel[32] = 1;
}

/* A list of which 256 KiB hold a quarter, not in the order of its addresses. Its first walk is outside bursts. */
static void walk(int rounds) {
  struct node {
    struct node *next;
    char rest[NODE - sizeof(struct node *)];
  } * nodes[NODES];
  for (int node = 0; node < NODES; node++)
    nodes[node] = malloc(sizeof(struct node));
  for (int node = 0; node < NODES; node++)
    nodes[node * 1367 % NODES]->next = nodes[(node + 1) * 1367 % NODES];
  struct node *volatile at = nodes[0];
  for (int step = 0; step < NODES; step++)
    at = at->next;
  heaptape_mark("begin");
  for (int step = 0; step < NODES * rounds; step++)
    at = at->next;
  heaptape_mark("end");
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "phases";
  int number = argc > 2 ? atoi(argv[2]) : 3;
  for (int object = 0; object < OLD_OBJECTS; object++)
    old[object] = calloc(1, OLD);
  sentinel = malloc(SENTINEL);
  if (strcmp(mode, "phases") == 0) {
    phases(number);
  } else if (strcmp(mode, "fork") == 0) {
    fork_in_a_burst();
  } else if (strcmp(mode, "walk") == 0) {
    walk(number);
  } else if (strcmp(mode, "exec") == 0) {
    heaptape_mark("begin");
    sentinel[16] = 1;
    execl(argv[0], argv[0], "phases", "2", (char *)NULL);
  }
  return 0;
}
