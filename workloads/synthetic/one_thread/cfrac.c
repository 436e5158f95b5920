/* SPDX-License-Identifier: MIT */
/* A factoring program's big-number churn: arithmetic on numbers of a few digits, each a separate small object. Every
   operation allocates its result and soon frees its operands, so objects are tiny, short-lived, and mostly in
   last-in-first-out order. One thread.

   Shape after cfrac (continued fractions; one of the allocation-heavy programs of Zorn and Grunwald's collection, used
   by allocator papers since 1992): it keeps its numbers as counted vectors of 16-bit digits, too. */
#include "workloads/synthetic/pattern.h"

#include <string.h>

enum { MAX_DIGITS = 24, REGISTERS = 64 };

struct number {
  uint16_t digits;
  uint16_t digit[]; /* base 2^16, least first, little-endian */
};

_Static_assert(sizeof(struct number) + (MAX_DIGITS + 1) * sizeof(uint16_t) <= CONTENT_BYTES, "numbers fit");

static uint64_t steps = 1000000;

static object_ref number_new(struct actor *actor, unsigned digits, struct number **number) {
  object_ref made = do_malloc(actor, sizeof(struct number) + digits * sizeof(uint16_t));
  *number = content(actor, made);
  (*number)->digits = (uint16_t)digits;
  return made;
}

static object_ref number_random(struct actor *actor, struct rng *rng) {
  struct number *number;
  object_ref made = number_new(actor, (unsigned)rng_between(rng, 1, MAX_DIGITS / 2), &number);
  for (unsigned i = 0; i < number->digits; i++)
    number->digit[i] = (uint16_t)rng_next(rng);
  return made;
}

/* The arithmetic uses words of four digits; the digits above a number's own are zero. */
enum { WORDS = (MAX_DIGITS + 1 + 3) / 4 };

static void load(uint64_t *words, const struct number *number) {
  memset(words, 0, WORDS * sizeof *words);
  memcpy(words, number->digit, number->digits * sizeof *number->digit);
}

static object_ref add(struct actor *actor, const struct number *a, const struct number *b) {
  uint64_t x[WORDS], y[WORDS];
  unsigned __int128 carry = 0;
  struct number *sum;
  object_ref made = number_new(actor, (a->digits < b->digits ? b->digits : a->digits) + 1u, &sum);
  load(x, a);
  load(y, b);
  for (unsigned i = 0; i < WORDS; i++) {
    carry += (unsigned __int128)x[i] + y[i];
    x[i] = (uint64_t)carry;
    carry >>= 64;
  }
  memcpy(sum->digit, x, sum->digits * sizeof *sum->digit);
  return made;
}

static object_ref multiply(struct actor *actor, const struct number *a, const struct number *b) {
  uint64_t x[WORDS], y[WORDS], z[2 * WORDS] = {0};
  struct number *product;
  object_ref made = number_new(actor, (unsigned)a->digits + b->digits, &product);
  load(x, a);
  load(y, b);
  for (unsigned i = 0; 4 * i < a->digits; i++) {
    unsigned __int128 carry = 0;
    unsigned j = 0;
    for (; 4 * j < b->digits; j++) {
      carry += (unsigned __int128)x[i] * y[j] + z[i + j];
      z[i + j] = (uint64_t)carry;
      carry >>= 64;
    }
    z[i + j] = (uint64_t)carry;
  }
  memcpy(product->digit, z, product->digits * sizeof *product->digit);
  return made;
}

/* Returns the low digits, without leading zeros: keeps numbers from growing forever. */
static object_ref reduce(struct actor *actor, const struct number *a) {
  unsigned digits = a->digits < MAX_DIGITS / 2 ? a->digits : MAX_DIGITS / 2;
  while (digits > 1 && a->digit[digits - 1] == 0)
    digits--;
  struct number *low;
  object_ref made = number_new(actor, digits, &low);
  memcpy(low->digit, a->digit, digits * sizeof *low->digit);
  return made;
}

/* x = (x * y + z) mod 2^k: three results, of which two are temporary. */
static object_ref step(struct actor *actor, object_ref x, object_ref y, object_ref z) {
  object_ref product = multiply(actor, content(actor, x), content(actor, y));
  object_ref sum = add(actor, content(actor, product), content(actor, z));
  object_ref result = reduce(actor, content(actor, sum));
  do_free(actor, product);
  do_free(actor, sum);
  return result;
}

static void run(struct actor *actor) {
  object_ref number[REGISTERS];
  struct rng rng = rng_seed(pattern_seed, 0);
  for (unsigned i = 0; i < REGISTERS; i++)
    number[i] = number_random(actor, &rng);
  for (uint64_t i = 0; i < steps; i++) {
    object_ref *x = &number[rng_below(&rng, REGISTERS)];
    object_ref result = step(actor, *x, number[rng_below(&rng, REGISTERS)], number[rng_below(&rng, REGISTERS)]);
    do_free(actor, *x);
    *x = result;
    if (((const struct number *)content(actor, result))->digits < 2) {
      do_free(actor, *x);
      *x = number_random(actor, &rng);
    }
  }
  for (unsigned i = 0; i < REGISTERS; i++)
    do_free(actor, number[i]);
}

static const struct option_number options[] = {{"steps", &steps, 0, UINT64_MAX, "operations; each is six calls"},
                                               {NULL, NULL, 0, 0, NULL}};

const struct pattern pattern = {
    .summary = "bignum churn: many small, short-lived objects in one thread", .options = options, .run = run};
