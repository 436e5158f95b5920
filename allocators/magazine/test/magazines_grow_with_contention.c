/* SPDX-License-Identifier: MIT */
/* Magazines of a class double in size each time that its depot's lock was found taken 16 times, if magazine_grow is on;
   never if it is off, and magazines of other classes do not change. */
#include "allocators/common/entry.h"
#include "allocators/magazine/magazines.h"
#include "allocators/magazine/zones.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { BYTES = 40, OTHER_BYTES = 400, SIZE_AT_FIRST = 4, CONTENDED_LIMIT = 16, OBJECTS = 1024 };

struct user {
  atomic_bool stop;
  atomic_uint turns; /* calls that have returned */
};

/* Goes to the depot of the class repeatedly, until stopped. */
static void *use_depot(void *argument) {
  struct user *user = argument;
  void *objects[OBJECTS];
  for (int at = 0, step = 1; !atomic_load(&user->stop); at += step) {
    if (step == 1)
      objects[at] = allocator_malloc(BYTES);
    else
      allocator_free(objects[at]);
    if (at == (step == 1 ? OBJECTS - 1 : 0)) {
      step = -step;
      at -= step;
    }
    atomic_fetch_add(&user->turns, 1);
  }
  return NULL;
}

/* Makes the user find the lock taken once; when this returns, the user has passed it. */
static void contend_once(struct user *user) {
  uint64_t before = counted("depot_contended");
  depot_lock(class_for(BYTES));
  while (counted("depot_contended") == before)
    sched_yield();
  unsigned turns = atomic_load(&user->turns);
  depot_unlock(class_for(BYTES));
  while (atomic_load(&user->turns) == turns)
    sched_yield();
}

static void contend(int times) {
  struct user user = {false, 0};
  pthread_t thread;
  if (pthread_create(&thread, NULL, use_depot, &user) != 0)
    exit(2);
  for (int time = 0; time < times; time++)
    contend_once(&user);
  atomic_store(&user.stop, true);
  pthread_join(thread, NULL);
}

/* Allocates and frees many objects. Returns how many full magazines went to the depot. */
static uint64_t full_magazines(size_t object_bytes) {
  void *objects[OBJECTS];
  for (int index = 0; index < OBJECTS; index++)
    objects[index] = allocator_malloc(object_bytes);
  uint64_t before = counted("depot_frees");
  for (int index = 0; index < OBJECTS; index++)
    allocator_free(objects[index]);
  return counted("depot_frees") - before;
}

/* Returns the objects per magazine. The first time uses up smaller magazines in the depot. The last time, two full
   magazines and a partial one stay with the thread. */
static unsigned magazine_size(size_t object_bytes) {
  for (int time = 0; time < 4; time++)
    full_magazines(object_bytes);
  uint64_t given = full_magazines(object_bytes);
  unsigned size = 1;
  while (OBJECTS / (2 * size) + 2 >= given && size < OBJECTS)
    size *= 2;
  return size;
}

static int is_size(const char *when, size_t object_bytes, unsigned wanted) {
  unsigned size = magazine_size(object_bytes);
  if (size != wanted)
    fprintf(stderr, "%s: %u objects of %zu bytes in a magazine, not %u\n", when, size, object_bytes, wanted);
  return size != wanted;
}

static int check(bool grows) {
  int wrong = is_size("at first", BYTES, SIZE_AT_FIRST);
  contend(CONTENDED_LIMIT - 1);
  wrong |= is_size("before the limit", BYTES, SIZE_AT_FIRST);
  contend(1);
  wrong |= is_size("at the limit", BYTES, grows ? 2 * SIZE_AT_FIRST : SIZE_AT_FIRST);
  contend(CONTENDED_LIMIT);
  wrong |= is_size("at twice the limit", BYTES, grows ? 4 * SIZE_AT_FIRST : SIZE_AT_FIRST);
  return wrong | is_size("another class", OTHER_BYTES, SIZE_AT_FIRST);
}

int main(int argument_count, char **arguments) {
  if (argument_count > 1)
    return check(arguments[1][0] == 'g');
  return run_under(arguments, "stats=1:magazine_size=4:depot_size=65536:magazine_grow=1", "grows") |
         run_under(arguments, "stats=1:magazine_size=4:depot_size=65536:magazine_grow=0", "stays");
}
