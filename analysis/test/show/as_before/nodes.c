/* SPDX-License-Identifier: MIT */
// Recorded by: gcc -g -O1 -pthread nodes.c -o p; heaptape record --accesses --stacks -o nodes.tape -- ./p
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *kept[400];
static char *passed[64];
__attribute__((noinline)) static char *make_node(int n) {
  char *p = malloc(24 + n % 300);
  memset(p, 1, 24);
  return p;
}
__attribute__((noinline)) static char *make_table(int n) {
  char *p = calloc(n, 8);
  p[0] = 1;
  return p;
}
static void *work(void *a) {
  long seed = (long)a;
  for (int i = 0; i < 60; i++) {
    char *p = make_node(i * 7 + seed);
    if (i % 3)
      free(p);
    else
      kept[seed * 40 + i / 3] = p;
  }
  char *s = malloc(16);
  for (int i = 1; i < 20; i++)
    s = realloc(s, 16 << (i / 2));
  free(s);
  return 0;
}
int main(void) {
  for (int i = 0; i < 120; i++) {
    kept[200 + i] = make_node(i * 13);
  }
  for (int i = 0; i < 120; i += 2)
    free(kept[200 + i]);
  for (int i = 0; i < 6; i++)
    passed[i] = make_table(1000 * (i + 1));
  pthread_t t[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&t[i], 0, work, (void *)i);
  for (int i = 0; i < 2; i++)
    pthread_join(t[i], 0);
  char *big = malloc(3 << 20);
  memset(big, 1, 1 << 20);
  free(big);
  for (int i = 0; i < 5; i++)
    free(passed[i]);
  free(kept[0]);
  puts("ok");
  return 0;
}
