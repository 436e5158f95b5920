/* SPDX-License-Identifier: MIT */
/* A program that is compiled together with its allocator, so that gcc's -fipa-ra keeps values in registers that a call
   may change. Prints a sum of them, how many frames a walk from inside malloc finds, and how many calls malloc has left
   by a jump instead of a return. */
#include "core/test/usual.h"
#include <execinfo.h>

enum { JUMPS = 1234, WALKS = 4321, ROUNDS = 30000, ARENA_BYTES = 1 << 24 };
static char arena[ARENA_BYTES];
static size_t used;
static int frames;
static jmp_buf back;

/* Separate, as the functions called here are not known to leave registers alone. */
static __attribute__((noinline, cold)) void special(size_t bytes) {
  void *frame[64];
  if (bytes == WALKS)
    frames = backtrace(frame, 64);
  else
    longjmp(back, 1);
}

__attribute__((noinline)) void *malloc(size_t bytes) {
  size_t at = used;
  used = (at + bytes + 31) & ~(size_t)15;
  if (used > ARENA_BYTES - 20000)
    used = 0;
  return arena + at;
}

__attribute__((noinline)) void free(void *object) {
  used += object == arena;
}

__attribute__((noinline)) void *realloc(void *object, size_t bytes) {
  if (bytes == WALKS || bytes == JUMPS)
    special(bytes);
  char *moved = malloc(bytes);
  for (size_t i = 0; object && i < bytes; i++)
    moved[i] = ((char *)object)[i];
  return moved;
}

__attribute__((noinline)) void *calloc(size_t count, size_t bytes) {
  char *object = malloc(count * bytes);
  for (size_t i = 0; i < count * bytes; i++)
    ((volatile char *)object)[i] = 0;
  return object;
}

static __attribute__((noinline)) uint64_t rounds(uint64_t seed) {
  uint64_t a = seed, b = seed + 1, c = seed + 2, d = seed + 3, e = seed + 4, f = seed + 5, g = seed + 6;
  double x = (double)seed, y = x + 1, z = x + 2;
  for (int i = 0; i < ROUNDS; i++) {
    void *object = malloc(i % 300);
    a += b ^ (uint64_t)i, b += c, c ^= d, d += e * 3, e ^= f, f += g, g += a >> 7;
    free(object);
    x += y * 0.5, y += z * 0.25, z = x * 1e-3;
    x = x > 1e9 ? 1 : x;
  }
  return a ^ b ^ c ^ d ^ e ^ f ^ g ^ (uint64_t)(x + y + z);
}

int main(void) {
  volatile int jumped = 0;
  uint64_t sum = rounds(1);
  void *object = realloc(NULL, WALKS);
  while (jumped < 100)
    if (setjmp(back))
      jumped++;
    else
      object = realloc(object, JUMPS);
  printf("%llx, %d frames, %d jumps\n", (unsigned long long)(sum ^ rounds(2)), frames, jumped);
  return 0;
}
