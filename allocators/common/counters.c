/* SPDX-License-Identifier: MIT */
#include "allocators/common/counters.h"

#include "allocators/common/allocator.h"
#include "allocators/common/base.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Counts of a thread; in a list so that other threads can read them. Written by their thread only.

   Not in the thread's own memory: a thread may end unnoticed (one that only frees, in an allocator that keeps nothing
   per thread), but list entries must stay. So its counts stay, too. */
struct counts {
  uint64_t values[COUNTERS];
  struct counts *next, **place;
};

enum { BLOCK_BYTES = 64 << 10 };

static __thread struct counts *mine __attribute__((tls_model("initial-exec")));
static __thread bool has_ended __attribute__((tls_model("initial-exec"))); /* its counts are in the sum */
static struct counts *listed, *spare;                                      /* spare: of threads that have ended */
static struct counts *block, *block_end;                                   /* the unused part of the last block */
static uint64_t ended[COUNTERS];                                           /* of threads that have ended */
static struct lock list_lock;

/* Needs the lock. NULL: no memory. */
static struct counts *take_counts(void) {
  struct counts *taken = spare;
  if (taken) {
    spare = taken->next;
    *taken = (struct counts){0};
    return taken;
  }
  if (block == block_end) {
    int error = errno;
    void *mapped = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = error;
    if (mapped == MAP_FAILED)
      return NULL;
    block = mapped;
    block_end = block + BLOCK_BYTES / sizeof *block;
  }
  return block++;
}

static void list(struct counts *counts) {
  counts->next = listed;
  counts->place = &listed;
  if (listed)
    listed->place = &counts->next;
  listed = counts;
}

static void enlist(void) {
  lock_take_uncounted(&list_lock);
  mine = take_counts();
  if (mine)
    list(mine);
  lock_drop_uncounted(&list_lock);
}

void counters_add(enum counter counter, uint64_t amount) {
  if (UNLIKELY(!mine && !has_ended)) /* other libraries' destructors may run after ours */
    enlist();
  if (LIKELY(mine != NULL))
    __atomic_store_n(&mine->values[counter], mine->values[counter] + amount, __ATOMIC_RELAXED);
  else
    __atomic_fetch_add(&ended[counter], amount, __ATOMIC_RELAXED);
}

void counters_end_thread(void) {
  has_ended = true;
  if (!mine)
    return;
  lock_take_uncounted(&list_lock);
  *mine->place = mine->next;
  if (mine->next)
    mine->next->place = mine->place;
  for (int counter = 0; counter < COUNTERS; counter++)
    __atomic_fetch_add(&ended[counter], mine->values[counter], __ATOMIC_RELAXED);
  mine->next = spare;
  spare = mine;
  mine = NULL;
  lock_drop_uncounted(&list_lock);
}

void counters_after_fork(void) {
  lock_reset(&list_lock);
  listed = spare = NULL; /* another thread may have been changing them */
  block = block_end = NULL;
  if (mine)
    list(mine);
}

/* All counts, of live and ended threads. */
static void counters_sum(uint64_t sums[COUNTERS]) {
  lock_take_uncounted(&list_lock);
  for (size_t index = 0; index < COUNTERS; index++) {
    sums[index] = __atomic_load_n(&ended[index], __ATOMIC_RELAXED);
    for (const struct counts *counts = listed; counts; counts = counts->next)
      sums[index] += __atomic_load_n(&counts->values[index], __ATOMIC_RELAXED);
  }
  lock_drop_uncounted(&list_lock);
}

size_t heaptape_allocator_stats(struct allocator_stat *stats, size_t limit) {
  static const char *const names[] = {
#define COUNTER(name, meaning) #name,
#include ALLOCATOR_COUNTERS
#undef COUNTER
  };
  uint64_t sums[COUNTERS];
  if (!tunables.stats)
    return 0;
  counters_sum(sums);
  for (size_t index = 0; index < COUNTERS && index < limit; index++)
    stats[index] = (struct allocator_stat){names[index], sums[index]};
  return COUNTERS;
}

struct tunables tunables = {
#define TUNABLE(name, standard, lowest, highest, meaning) .name = standard,
#define CHOICE(name, standard, words, meaning) .name = standard,
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
};
struct tunables_set tunables_set;

static const struct known {
  const char *name;
  size_t offset, set_offset, lowest, highest;
  const char *words; /* NULL: a number */
} known[] = {
#define OFFSETS(name) offsetof(struct tunables, name), offsetof(struct tunables_set, name)
#define TUNABLE(name, standard, lowest, highest, meaning) {#name, OFFSETS(name), lowest, highest, NULL},
#define CHOICE(name, standard, words, meaning) {#name, OFFSETS(name), 0, SIZE_MAX, words},
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
#undef OFFSETS
};

/* Parses digits up to a ':' or the end. False: anything else, or too large. */
static bool parse_number(const char *text, size_t *value) {
  *value = 0;
  if (*text == ':' || *text == '\0')
    return false;
  for (; *text != ':' && *text != '\0'; text++) {
    if (*text < '0' || *text > '9' || __builtin_mul_overflow(*value, 10, value) ||
        __builtin_add_overflow(*value, (size_t)(*text - '0'), value))
      return false;
  }
  return true;
}

/* Finds a word, up to a ':' or the end: its number among the words. False: none of them. */
static bool parse_word(const char *text, const char *words, size_t *value) {
  size_t length = strcspn(text, ":");
  for (*value = 0; *words; ++*value) {
    size_t word_length = strcspn(words, " ");
    if (word_length == length && strncmp(words, text, length) == 0)
      return true;
    words += word_length + (words[word_length] == ' ');
  }
  return false;
}

static void set(const char *setting) {
  size_t length = strcspn(setting, "=:");
  for (const struct known *one = known; one < known + sizeof known / sizeof *known; one++) {
    if (strlen(one->name) != length || strncmp(one->name, setting, length) != 0)
      continue;
    const char *text = setting + length + 1;
    size_t value;
    if (setting[length] != '=' || !(one->words ? parse_word(text, one->words, &value) : parse_number(text, &value)) ||
        value < one->lowest || value > one->highest) {
      complain("tunable without a valid value, ignored", setting);
      return;
    }
    *(size_t *)((char *)&tunables + one->offset) = value;
    *(bool *)((char *)&tunables_set + one->set_offset) = true;
    return;
  }
  complain("unknown tunable, ignored", setting);
}

void tunables_read(void) {
  const char *settings = environment_value(ALLOCATOR_VARIABLE);
  while (settings && *settings) {
    if (*settings != ':')
      set(settings);
    settings += strcspn(settings, ":");
    settings += *settings == ':';
  }
  if (!&__libc_single_threaded)
    tunables.single_thread = 0;
}
