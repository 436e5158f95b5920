/* What every synthetic program shares: options, random numbers that a seed repeats, blocks that look used, a rate.

   Job: the frame of a small main. Not its job: the patterns. Everything is static inline, so that each program is one
   file, and nothing here calls malloc, so that a recording shows the pattern alone (stdio's buffer apart). */
#ifndef WORKLOADS_SYNTHETIC_H
#define WORKLOADS_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One --NAME=NUMBER; value holds the default. A list ends with a NULL name. */
struct option_number {
  const char *name;
  uint64_t *value;
  const char *what;
};

__attribute__((noreturn)) static inline void synthetic_usage(const char *program, const char *what,
                                                             const struct option_number *options, int status) {
  FILE *out = status ? stderr : stdout;
  fprintf(out, "%s: %s\n", program, what);
  for (; options->name; options++)
    fprintf(out, "  --%s=%llu  %s\n", options->name, (unsigned long long)*options->value, options->what);
  exit(status);
}

static inline bool synthetic_take_option(const char *argument, const struct option_number *options) {
  if (strncmp(argument, "--", 2) != 0)
    return false;
  for (; options->name; options++) {
    size_t length = strlen(options->name);
    if (strncmp(argument + 2, options->name, length) != 0 || argument[2 + length] != '=')
      continue;
    char *end;
    *options->value = strtoull(argument + 3 + length, &end, 0);
    return *end == '\0' && end != argument + 3 + length;
  }
  return false;
}

/* Fills in the options or exits: 0 after --help, 2 at an argument it does not know. */
static inline void synthetic_options(int count, char **arguments, const char *what,
                                     const struct option_number *options) {
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--help") == 0)
      synthetic_usage(arguments[0], what, options, 0);
    if (!synthetic_take_option(arguments[i], options))
      synthetic_usage(arguments[0], what, options, 2);
  }
}

/* xorshift64*, one state per thread. */
struct rng {
  uint64_t state;
};

/* Streams of one seed are unlike: splitmix64 spreads them. */
static inline struct rng rng_seed(uint64_t seed, uint64_t stream) {
  uint64_t z = seed + (stream + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return (struct rng){z ? z : 1};
}

static inline uint64_t rng_next(struct rng *rng) {
  rng->state ^= rng->state >> 12;
  rng->state ^= rng->state << 25;
  rng->state ^= rng->state >> 27;
  return rng->state * 0x2545f4914f6cdd1du;
}

/* 0 <= result < limit, limit > 0. */
static inline uint64_t rng_below(struct rng *rng, uint64_t limit) {
  return (uint64_t)(((unsigned __int128)rng_next(rng) * limit) >> 64);
}

/* lowest <= result <= highest. */
static inline uint64_t rng_between(struct rng *rng, uint64_t lowest, uint64_t highest) {
  return lowest + rng_below(rng, highest - lowest + 1);
}

/* A size with a uniform logarithm: as many of 16 to 32 bytes as of 16 to 32 KiB. limit_bits <= 63. */
static inline size_t rng_log_size(struct rng *rng, unsigned limit_bits) {
  unsigned bits = (unsigned)rng_below(rng, limit_bits);
  return ((size_t)1 << bits) + rng_below(rng, (uint64_t)1 << bits);
}

/* Writes to the block's first and last byte, and keeps the compiler from seeing through malloc and free. Exits with 1
   if there is no block. */
static inline void *used(void *block, size_t size_bytes) {
  if (!block) {
    fputs("out of memory\n", stderr);
    exit(1);
  }
  if (size_bytes > 0) {
    volatile char *bytes = block;
    bytes[0] = 1;
    bytes[size_bytes - 1] = 1;
  }
  __asm__ volatile("" : "+r"(block) : : "memory");
  return block;
}

static inline uint64_t synthetic_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Prints the calls of the malloc API per second since start_ns, unless quiet. */
static inline void synthetic_report(uint64_t calls, uint64_t start_ns, bool quiet) {
  if (!quiet)
    printf("%llu calls, %.3g per second\n", (unsigned long long)calls,
           (double)calls * 1e9 / (double)(synthetic_now_ns() - start_ns));
}

#define SYNTHETIC_COMMON_OPTIONS(seed, quiet)                                                                          \
  {"seed", &(seed), "repeats the run"}, {"quiet", &(quiet), "1: print nothing"}, {                                     \
    NULL, NULL, NULL                                                                                                   \
  }

#endif
