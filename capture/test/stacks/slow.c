/* SPDX-License-Identifier: MIT */
/* An allocator in front of libc's: malloc of 4242 bytes takes 30 ms and stores how many cycles that took; each call
   looks at its own stack, as heap profilers do. */
#include "core/base/os.h"
#include "core/test/usual.h"

#include <execinfo.h>

void *malloc(size_t bytes);
void free(void *object);
size_t malloc_usable_size(void *object);

/* How long the last malloc slept. */
extern uint64_t slow_inner_cycles;
uint64_t slow_inner_cycles;

static __thread int inside;

static void look(void) {
  void *addresses[16];
  if (inside++ == 0)
    backtrace(addresses, 16);
  inside--;
}

void *malloc(size_t bytes) {
  static void *(*real)(size_t);
  if (!real)
    real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
  look();
  uint64_t begin = os_stamp();
  if (bytes == 4242)
    nanosleep(&(struct timespec){0, 30000000}, NULL);
  slow_inner_cycles = os_stamp() - begin;
  return real(bytes);
}

void free(void *object) {
  static void (*real)(void *);
  if (!real)
    real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
  look();
  real(object);
}

size_t malloc_usable_size(void *object) {
  static size_t (*real)(void *);
  if (!real)
    real = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
  return real(object);
}
