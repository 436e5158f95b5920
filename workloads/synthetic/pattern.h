/* SPDX-License-Identifier: MIT */
/* A pattern of calls, written once and used in two ways: as a program, whose threads are threads and whose calls go to
   malloc; and as a generator of a workload file, whose threads take turns under a scheduler and whose calls become ops
   (--work=FILE). Both make the same calls on the same objects, thread by thread.

   A pattern is its sizes as options, a run function, and a `const struct pattern pattern_NAME`; patterns.def lists all,
   main.c has the main. Each file holds the patterns of one kind.
   Rules that make both uses agree: a thread decides by its own random numbers and by what other threads handed to it,
   never by addresses or time; threads wait for each other only by the functions below; tables are from pattern_array,
   so that a recording has only the pattern's own calls. In a program a call costs one branch and one addition more than
   malloc. */
#pragma once

#include "core/trace/event.h"
#include "workloads/synthetic/random.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* One --NAME=NUMBER from lowest to highest. A list ends with a NULL name. */
struct option_number {
  const char *name;
  uint64_t *value;
  uint64_t standard, lowest, highest;
  const char *what;
};

/* A thread of the pattern. The caller of actor_start owns it, until it has joined it. */
struct actor {
  struct script *script; /* NULL: a program */
  uint64_t calls;
  uint64_t turn; /* calls until another actor's turn, in a script */
  bool fills;    /* write to each OS page of the next objects, not only to their ends */
  uint32_t thread;
  pthread_t handle;
  struct part *part; /* in a script */
  void (*run)(struct actor *actor, void *argument);
  void *argument;
};

struct pattern {
  const char *name;    /* of the program, too */
  const char *summary; /* half a line on what it stands for */
  const struct option_number *options;
  void (*run)(struct actor *actor);
};

/* The --seed; each thread draws from its own stream. */
extern uint64_t pattern_seed;

/* Zeroed memory that is not in a recording; never given back. Exits with 1 if there is none. */
void *pattern_array(uint64_t count, uint64_t size_bytes);

/* ---- Threads ---- */

/* Starts a thread; exits with 1 where that fails. */
void actor_start(struct actor *parent, struct actor *child, void (*run)(struct actor *, void *), void *argument);
void actor_join(struct actor *parent, struct actor *child);

/* A thread that needs only to know which one it is. */
struct member {
  struct actor actor;
  uint64_t number;
};

/* Runs members first, first + 1, ... at once, and joins them. Each gets itself. */
void members_run(struct actor *parent, uint64_t first, uint64_t count, void (*run)(struct actor *, void *));

/* Runs that many threads at once, and joins them. Each gets its element of the array; an element begins with its
   actor. */
void actors_run(struct actor *parent, uint64_t count, void (*run)(struct actor *, void *), void *elements,
                size_t element_bytes);

struct semaphore {
  sem_t real;
  uint64_t count;
  struct part *first, *last; /* waiting, in a script */
};
void semaphore_wait(struct actor *actor, struct semaphore *semaphore);
void semaphore_post(struct actor *actor, struct semaphore *semaphore);

struct barrier {
  pthread_barrier_t real;
  uint64_t members, missing;
  struct semaphore turnstile; /* in a script */
};
void barrier_init(struct barrier *barrier, uint64_t members);
void barrier_wait(struct actor *actor, struct barrier *barrier);

/* ---- Objects ---- */

/* 0: none. In a program the address; in a script the object's number, plus 1. */
typedef uintptr_t object_ref;

/* Passes batches of objects from one thread to another; a few batches may be in transit. */
struct channel {
  struct semaphore room, full;
  uint64_t capacity, batch_objects;
  uint64_t sent, received;
  object_ref *ring;
  uint64_t *marks; /* of each batch: its sender's compose_mark, in a script */
};
/* In a script (script.c): the receiver continues after all that the sender has done so far. */
void script_sent(struct actor *actor, struct channel *channel);
void script_received(struct actor *actor, struct channel *channel);

void channel_init(struct channel *channel, uint64_t capacity, uint64_t batch_objects);

/* Sender: waits for room; returns the batch to fill, to be passed on by channel_send. */
static inline object_ref *channel_room(struct actor *actor, struct channel *channel) {
  semaphore_wait(actor, &channel->room);
  return channel->ring + channel->sent++ % channel->capacity * channel->batch_objects;
}
static inline void channel_send(struct actor *actor, struct channel *channel) {
  if (actor->script)
    script_sent(actor, channel);
  semaphore_post(actor, &channel->full);
}

/* Receiver: waits for a batch, which it owns until channel_done. */
static inline object_ref *channel_receive(struct actor *actor, struct channel *channel) {
  semaphore_wait(actor, &channel->full);
  if (actor->script)
    script_received(actor, channel);
  return channel->ring + channel->received++ % channel->capacity * channel->batch_objects;
}
static inline void channel_done(struct actor *actor, struct channel *channel) {
  semaphore_post(actor, &channel->room);
}

/* ---- Calls of the malloc API ---- */

/* In a script (script.c). object: the one passed in; 0: NULL. Acquiring calls return the new object. */
object_ref script_acquire(struct actor *actor, enum call_id call, size_t size_bytes, size_t param);
object_ref script_resize(struct actor *actor, enum call_id call, object_ref object, size_t size_bytes, size_t param);
void script_release(struct actor *actor, enum call_id call, object_ref object);
void script_touch(struct actor *actor, object_ref object);
void *script_content(struct actor *actor, object_ref object);

enum { PATTERN_OS_PAGE_BYTES = 4096 };

/* Writes where the pattern's program writes: the first and the last byte, or each OS page. Keeps the compiler from
   optimising malloc and free away. Exits with 1 where there is no object. */
object_ref pattern_used(struct actor *actor, void *memory, size_t size_bytes);

static inline object_ref used_ends(struct actor *actor, void *memory, size_t size_bytes) {
  if (__builtin_expect(!memory || actor->fills, 0))
    return pattern_used(actor, memory, size_bytes);
  if (size_bytes > 0) {
    volatile char *bytes = memory;
    bytes[0] = 1;
    bytes[size_bytes - 1] = 1;
  }
  __asm__ volatile("" : "+r"(memory) : : "memory");
  return (object_ref)memory;
}

static inline object_ref do_malloc(struct actor *actor, size_t size_bytes) {
  actor->calls++;
  if (actor->script)
    return script_acquire(actor, CALL_malloc, size_bytes, 0);
  return used_ends(actor, malloc(size_bytes), size_bytes);
}

static inline object_ref do_calloc(struct actor *actor, size_t count, size_t size_bytes) {
  actor->calls++;
  if (actor->script)
    return script_acquire(actor, CALL_calloc, size_bytes, count);
  return used_ends(actor, calloc(count, size_bytes), count * size_bytes);
}

/* memalign, posix_memalign or aligned_alloc. */
object_ref do_aligned(struct actor *actor, enum call_id call, size_t alignment, size_t size_bytes);
/* valloc or pvalloc. */
object_ref do_os_page_aligned(struct actor *actor, enum call_id call, size_t size_bytes);

/* object may be 0. With size 0 it returns 0: the object is freed (the one case where the C library returns none). */
object_ref do_realloc(struct actor *actor, object_ref object, size_t size_bytes);
object_ref do_reallocarray(struct actor *actor, object_ref object, size_t count, size_t size_bytes);

/* object may be 0. */
static inline void do_free(struct actor *actor, object_ref object) {
  actor->calls++;
  if (actor->script)
    script_release(actor, CALL_free, object);
  else
    free((void *)object);
}

/* Frees the objects that are not 0. */
void free_all(struct actor *actor, const object_ref *objects, uint64_t count);

/* malloc_usable_size; object may be 0. */
void do_measure(struct actor *actor, object_ref object);

/* The first CONTENT_BYTES bytes of an object, for patterns that keep data in it. */
enum { CONTENT_BYTES = 128 };
static inline void *content(struct actor *actor, object_ref object) {
  return actor->script ? script_content(actor, object) : (void *)object;
}
