/* SPDX-License-Identifier: MIT */
/* An allocator for tests: size classes over chunks from mmap, one lock. Revisions of test_git_bisect.py make lines that
 * end in PLANT worse. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define GRAIN ((size_t)16)      /* PLANT */
#define CHUNK ((size_t)1 << 20) /* PLANT */
#define OFFSET ((size_t)0)      /* PLANT */
#define SPINS 0                 /* PLANT */
#define CLASSES 4096

struct head {
  size_t size;
  struct head *next;
};

static struct head *freed[CLASSES];
static char *chunk;
static size_t left;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void *mapped(size_t bytes) {
  void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return found == MAP_FAILED ? NULL : found;
}

static void *carve(size_t bytes) {
  if (bytes > left) {
    size_t wanted = bytes > CHUNK ? bytes : CHUNK;
    chunk = mapped(wanted);
    left = chunk ? wanted : 0;
    if (!chunk)
      return NULL;
  }
  void *found = chunk;
  chunk += bytes;
  left -= bytes;
  return found;
}

void *malloc(size_t size) {
  if (size > PTRDIFF_MAX - 4096)
    return errno = ENOMEM, NULL;
  size_t rounded = (size + OFFSET + GRAIN - 1) / GRAIN * GRAIN;
  if (!rounded)
    rounded = GRAIN;
  for (volatile int i = 0; i < SPINS; i++)
    continue;
  while (atomic_flag_test_and_set(&lock))
    continue;
  struct head *head = NULL;
  size_t class = rounded / 16;
  if (class < CLASSES && freed[class]) {
    head = freed[class];
    freed[class] = head->next;
  } else {
    head = carve(sizeof *head + rounded);
  }
  atomic_flag_clear(&lock);
  if (!head)
    return errno = ENOMEM, NULL;
  head->size = rounded;
  return (char *)(head + 1) + OFFSET;
}

static struct head *head_of(void *object) {
  return (struct head *)((char *)object - OFFSET) - 1;
}

void free(void *object) {
  if (!object || (uintptr_t)object % 16 != OFFSET % 16)
    return;
  struct head *head = head_of(object);
  size_t class = head->size / 16;
  if (class >= CLASSES)
    return;
  while (atomic_flag_test_and_set(&lock))
    continue;
  head->next = freed[class];
  freed[class] = head;
  atomic_flag_clear(&lock);
}

size_t malloc_usable_size(void *object) {
  return object ? head_of(object)->size - OFFSET : 0;
}

void *calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes))
    return errno = ENOMEM, NULL;
  void *object = malloc(bytes);
  return object ? memset(object, 0, bytes) : NULL;
}

void *realloc(void *object, size_t size) {
  void *other = malloc(size);
  if (!other || !object)
    return other;
  size_t had = malloc_usable_size(object);
  memcpy(other, object, had < size ? had : size);
  free(object);
  return other;
}
