/* SPDX-License-Identifier: MIT */
/* One thread: the calls of kinds of programs. */
#include "workloads/synthetic/pattern.h"

#include <string.h>

/* Options; each pattern sets those that it has. */
static uint64_t steps, lines, longest_words, longest_letters, documents, document_lines, tasks, depth, objects, results,
    lowest_bytes, highest_bytes;

/* A factoring program's big-number churn: arithmetic on numbers of a few digits, each a separate small object. Every
   operation allocates its result and soon frees its operands, so objects are tiny, short-lived, and mostly in
   last-in-first-out order. One thread.

   Shape after cfrac (continued fractions; one of the allocation-heavy programs of Zorn and Grunwald's collection, used
   by allocator papers since 1992): it keeps its numbers as counted vectors of 16-bit digits, too. */

enum { MAX_DIGITS = 24, REGISTERS = 64 };

struct number {
  uint16_t digits;
  uint16_t digit[]; /* base 2^16, least first, little-endian */
};

_Static_assert(sizeof(struct number) + (MAX_DIGITS + 1) * sizeof(uint16_t) <= CONTENT_BYTES, "numbers fit");

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

static void cfrac_run(struct actor *actor) {
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

static const struct option_number cfrac_options[] = {
    {"steps", &steps, 1000000, 0, UINT64_MAX, "operations; each is six calls"},
    {0},
};

const struct pattern pattern_cfrac = {"cfrac", "bignum churn: many small, short-lived objects in one thread",
                                      cfrac_options, cfrac_run};

/* Strings built from words: each word is a separate object for a moment, a line grows with each word by exactly the
   word's length, and lines are kept in their documents, the oldest of which is dropped as a whole. Tiny sizes, reallocs
   of a few bytes, two kinds of lifetimes.

   Our own shape, for scripting languages and report writers that concatenate. */

static object_ref build_line(struct actor *actor, struct rng *rng) {
  uint64_t words = rng_between(rng, 1, longest_words), length = 0;
  object_ref line = 0;
  for (uint64_t i = 0; i < words; i++) {
    uint64_t letters = rng_between(rng, 1, longest_letters);
    object_ref word = do_malloc(actor, letters + 1);
    length += letters + 1;
    line = line ? do_realloc(actor, line, length + 1) : do_malloc(actor, length + 1);
    do_free(actor, word);
  }
  return line;
}

/* A document's lines are consecutive; the unfinished document has fewer. */
static void drop(struct actor *actor, object_ref *document) {
  for (uint64_t i = 0; i < document_lines; i++) {
    if (document[i])
      do_free(actor, document[i]);
    document[i] = 0;
  }
}

static void string_building_run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *line = pattern_array(documents * document_lines, sizeof *line);
  for (uint64_t i = 0; i < lines; i++) {
    uint64_t place = i % (documents * document_lines);
    if (place % document_lines == 0)
      drop(actor, &line[place]);
    line[place] = build_line(actor, &rng);
  }
  for (uint64_t document = 0; document < documents; document++)
    drop(actor, &line[document * document_lines]);
}

static const struct option_number string_building_options[] = {
    {"lines", &lines, 50000, 0, UINT64_MAX, "built"},
    {"words", &longest_words, 12, 1, 1 << 20, "of a line at most"},
    {"letters", &longest_letters, 14, 1, 1 << 20, "of a word at most"},
    {"documents", &documents, 8, 1, 1 << 20, "kept at a time"},
    {"document-lines", &document_lines, 500, 1, 1 << 20, "of a document"},
    {0},
};

const struct pattern pattern_string_building = {"string_building", "strings built of words, kept in documents",
                                                string_building_options, string_building_run};

/* Temporary objects in nested scopes: a task allocates, opens a scope, allocates, opens another; a scope's objects are
   freed together when it closes, the last one first. Between two tasks hardly any object is left. This is the work of
   pools and arenas, done with malloc and free: compilers, request handlers, interpreters.

   Our own shape; the lifetimes are those that Hanson's arenas (1990) and regions assume. */

static object_ref *stack; /* live objects of the task, the youngest last */
static uint64_t height;

static void open_scope(struct actor *actor, struct rng *rng) {
  uint64_t count = rng_between(rng, 1, objects);
  for (uint64_t i = 0; i < count; i++)
    stack[height++] = do_malloc(actor, rng_log_between(rng, lowest_bytes, highest_bytes));
}

static void close_scope(struct actor *actor, uint64_t bottom) {
  while (height > bottom)
    do_free(actor, stack[--height]);
}

/* Scopes open and close at random until the outermost one is closed. */
static void run_task(struct actor *actor, struct rng *rng) {
  uint64_t bottom[64], open = 0;
  do {
    if (open == 0 || (open < depth && rng_below(rng, 2))) {
      bottom[open++] = height;
      open_scope(actor, rng);
    } else {
      close_scope(actor, bottom[--open]);
    }
  } while (open > 0);
}

static void arenas_run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *result = pattern_array(tasks * results + 1, sizeof *result);
  stack = pattern_array(depth * objects, sizeof *stack);
  for (uint64_t task = 0; task < tasks; task++) {
    for (uint64_t i = 0; i < results; i++)
      result[task * results + i] = do_malloc(actor, rng_log_between(&rng, lowest_bytes, highest_bytes));
    run_task(actor, &rng);
  }
  free_all(actor, result, tasks * results);
}

static const struct option_number arenas_options[] = {
    {"tasks", &tasks, 200, 0, 1ull << 32, "one after the other"},
    {"depth", &depth, 6, 1, 64, "of nested scopes at most"},
    {"objects", &objects, 300, 1, 1 << 28, "that a scope allocates at most"},
    {"results", &results, 1, 0, 1024, "objects of a task that live to the end of the run"},
    {"lowest", &lowest_bytes, 16, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 512, 1, 1ull << 40, "largest request in bytes"},
    {0},
};

const struct pattern pattern_arenas = {"arenas", "temporary objects, freed scope by scope", arenas_options, arenas_run};
