/* SPDX-License-Identifier: MIT */
/* Threads and the rarer calls of a pattern, as a program; in a script they are passed on (script.c). */
#include "workloads/synthetic/script.h"

#include <stdio.h>
#include <sys/mman.h>

__attribute__((noreturn)) static void fail(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

void *pattern_array(uint64_t count, uint64_t size_bytes) {
  uint64_t bytes;
  if (__builtin_mul_overflow(count, size_bytes, &bytes))
    fail("out of memory");
  void *array = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (array == MAP_FAILED)
    fail("out of memory");
  return array;
}

/* ---- Threads ---- */

static void *run_actor(void *argument) {
  struct actor *actor = argument;
  actor->run(actor, actor->argument);
  return NULL;
}

void actor_start(struct actor *parent, struct actor *child, void (*run)(struct actor *, void *), void *argument) {
  *child = (struct actor){.run = run, .argument = argument};
  if (parent->script)
    script_start(parent, child);
  else if (pthread_create(&child->handle, NULL, run_actor, child) != 0)
    fail("can't start another thread");
}

void actor_join(struct actor *parent, struct actor *child) {
  if (parent->script)
    script_join(parent, child);
  else
    pthread_join(child->handle, NULL);
  parent->calls += child->calls;
}

void actors_run(struct actor *parent, uint64_t count, void (*run)(struct actor *, void *), void *elements,
                size_t element_bytes) {
  char *first = elements;
  for (uint64_t i = 0; i < count; i++)
    actor_start(parent, (struct actor *)(first + i * element_bytes), run, first + i * element_bytes);
  for (uint64_t i = 0; i < count; i++)
    actor_join(parent, (struct actor *)(first + i * element_bytes));
}

void members_run(struct actor *parent, uint64_t first, uint64_t count, void (*run)(struct actor *, void *)) {
  struct member *members = pattern_array(count, sizeof *members);
  for (uint64_t i = 0; i < count; i++)
    members[i].number = first + i;
  actors_run(parent, count, run, members, sizeof *members);
}

static void semaphore_init(struct semaphore *semaphore, uint64_t count) {
  *semaphore = (struct semaphore){.count = count};
  sem_init(&semaphore->real, 0, (unsigned)count);
}

void semaphore_wait(struct actor *actor, struct semaphore *semaphore) {
  if (actor->script)
    script_wait(actor, semaphore);
  else
    while (sem_wait(&semaphore->real) != 0)
      continue; /* a signal */
}

void semaphore_post(struct actor *actor, struct semaphore *semaphore) {
  if (actor->script)
    script_post(actor, semaphore);
  else
    sem_post(&semaphore->real);
}

void barrier_init(struct barrier *barrier, uint64_t members) {
  *barrier = (struct barrier){.members = members, .missing = members};
  semaphore_init(&barrier->turnstile, 0);
  pthread_barrier_init(&barrier->real, NULL, (unsigned)members);
}

void barrier_wait(struct actor *actor, struct barrier *barrier) {
  if (!actor->script) {
    pthread_barrier_wait(&barrier->real);
    return;
  }
  if (--barrier->missing > 0) {
    script_wait(actor, &barrier->turnstile);
    return;
  }
  barrier->missing = barrier->members;
  for (uint64_t i = 1; i < barrier->members; i++)
    script_post(actor, &barrier->turnstile);
}

void channel_init(struct channel *channel, uint64_t capacity, uint64_t batch_objects) {
  *channel = (struct channel){.capacity = capacity, .batch_objects = batch_objects};
  semaphore_init(&channel->room, capacity);
  semaphore_init(&channel->full, 0);
  channel->marks = pattern_array(capacity, sizeof *channel->marks);
  channel->ring = pattern_array(capacity * batch_objects, sizeof *channel->ring);
}

/* ---- Calls ---- */

object_ref pattern_used(struct actor *actor, void *memory, size_t size_bytes) {
  if (!memory)
    fail("out of memory");
  volatile char *bytes = memory;
  for (size_t at = 0; actor->fills && at < size_bytes; at += PATTERN_OS_PAGE_BYTES)
    bytes[at] = 1;
  if (size_bytes > 0)
    bytes[size_bytes - 1] = 1;
  return (object_ref)memory;
}

object_ref do_aligned(struct actor *actor, enum call_id call, size_t alignment, size_t size_bytes) {
  void *memory = NULL;
  actor->calls++;
  if (actor->script)
    return script_acquire(actor, call, size_bytes, alignment);
  if (call == CALL_memalign)
    memory = memalign(alignment, size_bytes);
  else if (call == CALL_aligned_alloc)
    memory = aligned_alloc(alignment, size_bytes);
  else if (posix_memalign(&memory, alignment, size_bytes) != 0)
    memory = NULL;
  return used_ends(actor, memory, size_bytes);
}

object_ref do_os_page_aligned(struct actor *actor, enum call_id call, size_t size_bytes) {
  actor->calls++;
  if (actor->script)
    return script_acquire(actor, call, size_bytes, 0);
  return used_ends(actor, call == CALL_valloc ? valloc(size_bytes) : pvalloc(size_bytes), size_bytes);
}

object_ref do_realloc(struct actor *actor, object_ref object, size_t size_bytes) {
  actor->calls++;
  if (actor->script)
    return script_resize(actor, CALL_realloc, object, size_bytes, 0);
  void *memory = realloc((void *)object, size_bytes);
  if (size_bytes == 0 && object)
    return (object_ref)memory;
  return used_ends(actor, memory, size_bytes);
}

object_ref do_reallocarray(struct actor *actor, object_ref object, size_t count, size_t size_bytes) {
  actor->calls++;
  if (actor->script)
    return script_resize(actor, CALL_reallocarray, object, size_bytes, count);
  return used_ends(actor, reallocarray((void *)object, count, size_bytes), count * size_bytes);
}

void free_all(struct actor *actor, const object_ref *objects, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (objects[i])
      do_free(actor, objects[i]);
}

void do_measure(struct actor *actor, object_ref object) {
  actor->calls++;
  if (actor->script)
    script_touch(actor, object);
  else if (malloc_usable_size((void *)object) == 0 && object)
    abort();
}
