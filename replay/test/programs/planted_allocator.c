/* SPDX-License-Identifier: MIT */
/* A malloc library whose costs and faults are known beforehand, for the engine's tests. It hands out each address once,
   so it detects objects that are freed twice, too early or were never handed out, and aborts the process.

   Environment: PLANT_SPIN_CYCLES (each malloc takes at least that long; exactly that long where the engine's clock is
   the planted one), PLANT_SLOW_EVERY=N and PLANT_SLOW_CYCLES (one malloc in N takes that much longer),
   PLANT_PREEMPT_EVERY=N and PLANT_SLEEP_EVERY=N (in one malloc in N, after its cycles, the thread counts as preempted
   or as having slept: planted clock only), PLANT_HOLD_BYTES (held resident from the start),
   PLANT_HUGE_PAGES (objects, and what is held, are in huge pages), PLANT_MAP_EVERY=N (every N
   mallocs: one mmap of 64 KiB, one madvise, one munmap), PLANT_REFUSE_FROM (requests from that size on get NULL),
   PLANT_CRASH_AT=N (the Nth malloc writes to an address below 4096), PLANT_HANG_AT=N (the Nth malloc sleeps),
   PLANT_OS_PAGES=N (each object has its own mapping, of N OS pages more than it needs, all written: resident memory is
   live objects times OS pages), PLANT_KEEP_FREED (free does not unmap it), PLANT_SPIKE_AT=N and PLANT_SPIKE_BYTES (the
   Nth malloc maps, writes and unmaps that many bytes before it returns), PLANT_LOOPS (how often each malloc runs a loop
   of a few instructions), PLANT_STARTUP_LOOPS (the same for the constructor), PLANT_HOLD_AFTER_MS (the first malloc
   that many ms after the very first one, by the clock, maps 1 MiB and keeps it), PLANT_CALIBRATES (the constructor
   needs CLOCK_MONOTONIC_RAW to go on), PLANT_RELEASE_AFTER_MS (a thread of its own gives the held bytes back that many
   ms after the first malloc, by a timed wait). malloc_trim gives the held bytes back in one madvise. */
#include "core/base/os.h"
#include "core/test/usual.h"

#define PUBLIC __attribute__((visibility("default")))
#define ARENA_BYTES ((uint64_t)8 << 30)

enum { LIVE = 0x4c495645, DEAD = 0x44454144, MAPPED_BYTES = 64 << 10, OS_PAGE_BYTES = 4096 };

/* Directly before each object. */
struct header {
  uint64_t bytes;
  _Atomic uint32_t state;
  uint32_t alignment; /* PLANT_OS_PAGES: the object's offset in its mapping */
};

static uint8_t *arena;
static _Atomic uint64_t used;
static _Atomic uint64_t mallocs, own_mallocs = UINT64_MAX; /* own_mallocs: made when the constructor ends */
static uint64_t spin_cycles, map_every, refuse_from, crash_at, hang_at, hold_bytes, os_pages, keep_freed, spike_at,
    spike_bytes, loops, slow_every, slow_cycles, preempt_every, sleep_every, hold_after_ms;

static uint64_t setting(const char *name) {
  const char *value = getenv(name);
  return value ? strtoull(value, NULL, 10) : 0;
}

static void go_round(uint64_t times) {
  for (uint64_t loop = 0; loop < times; loop++)
    __asm__ volatile("");
}

static void die(const char *why) {
  ssize_t ignored = write(STDERR_FILENO, why, strlen(why));
  (void)ignored;
  abort();
}

static void calibrate(void) {
  struct timespec first, now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &first);
  for (uint64_t readings = 0; readings < 10000000; readings++) {
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    if (now.tv_sec != first.tv_sec || now.tv_nsec != first.tv_nsec)
      return;
  }
  die("planted allocator: the clock stands still\n");
}

static void wait_ms(uint64_t ms) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  struct timeval now;
  gettimeofday(&now, NULL);
  uint64_t ns = (uint64_t)now.tv_usec * 1000 + ms * 1000000;
  struct timespec until = {now.tv_sec + (time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  pthread_mutex_lock(&mutex);
  pthread_cond_timedwait(&never, &mutex, &until);
  pthread_mutex_unlock(&mutex);
}

static void *release_later(void *nothing) {
  while (atomic_load(&mallocs) <= atomic_load(&own_mallocs))
    wait_ms(1);
  wait_ms(setting("PLANT_RELEASE_AFTER_MS"));
  madvise(arena, hold_bytes, MADV_DONTNEED);
  return nothing;
}

__attribute__((constructor)) static void begin(void) {
  if (arena)
    return;
  if (setting("PLANT_CALIBRATES"))
    calibrate();
  arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED)
    abort();
  madvise(arena, ARENA_BYTES, setting("PLANT_HUGE_PAGES") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  spin_cycles = setting("PLANT_SPIN_CYCLES");
  map_every = setting("PLANT_MAP_EVERY");
  refuse_from = setting("PLANT_REFUSE_FROM");
  crash_at = setting("PLANT_CRASH_AT");
  hang_at = setting("PLANT_HANG_AT");
  slow_every = setting("PLANT_SLOW_EVERY");
  slow_cycles = setting("PLANT_SLOW_CYCLES");
  preempt_every = setting("PLANT_PREEMPT_EVERY");
  sleep_every = setting("PLANT_SLEEP_EVERY");
  os_pages = setting("PLANT_OS_PAGES");
  keep_freed = setting("PLANT_KEEP_FREED");
  spike_at = setting("PLANT_SPIKE_AT");
  spike_bytes = setting("PLANT_SPIKE_BYTES");
  loops = setting("PLANT_LOOPS");
  hold_after_ms = setting("PLANT_HOLD_AFTER_MS");
  hold_bytes = setting("PLANT_HOLD_BYTES");
  go_round(setting("PLANT_STARTUP_LOOPS"));
  memset(arena, 1, hold_bytes);
  used = hold_bytes;
  pthread_t thread;
  if (setting("PLANT_RELEASE_AFTER_MS") && pthread_create(&thread, NULL, release_later, NULL) != 0)
    abort();
  atomic_store(&own_mallocs, atomic_load(&mallocs));
}

/* Maps resident anonymous memory without transparent huge pages. */
static uint8_t *map_resident(uint64_t bytes) {
  uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    die("planted allocator: no memory\n");
  for (uint64_t at = 0; at < bytes; at += OS_PAGE_BYTES)
    ((volatile uint8_t *)memory)[at] = 1;
  return memory;
}

/* Returns the size of a mapping: header and object, rounded up to OS pages, plus os_pages. */
static uint64_t mapping_bytes(uint64_t alignment, uint64_t bytes) {
  uint64_t whole = (alignment + bytes + OS_PAGE_BYTES - 1) & ~(uint64_t)(OS_PAGE_BYTES - 1);
  return whole + os_pages * OS_PAGE_BYTES;
}

static void *take_mapping(uint64_t alignment, uint64_t bytes) {
  if (alignment > OS_PAGE_BYTES / 2)
    die("planted allocator: alignment too large for PLANT_OS_PAGES\n");
  uint8_t *mapping = map_resident(mapping_bytes(alignment < 32 ? 32 : alignment, bytes));
  struct header *header = (struct header *)(mapping + (alignment < 32 ? 32 : alignment)) - 1;
  header->bytes = bytes;
  header->alignment = (uint32_t)(alignment < 32 ? 32 : alignment);
  atomic_store(&header->state, LIVE);
  return header + 1;
}

static void *take(uint64_t alignment, uint64_t bytes) {
  if (!arena)
    begin();
  if (refuse_from && bytes >= refuse_from)
    return NULL;
  if (alignment < 16)
    alignment = 16;
  uint64_t room = sizeof(struct header) + alignment + ((bytes + 15) & ~(uint64_t)15);
  if (bytes >= ARENA_BYTES)
    return NULL;
  if (os_pages)
    return take_mapping(alignment, bytes);
  uint64_t at = atomic_fetch_add(&used, room);
  if (at + room > ARENA_BYTES)
    die("planted allocator: arena is used up\n");
  uint64_t address = ((uint64_t)(uintptr_t)arena + at + sizeof(struct header) + alignment - 1) & ~(alignment - 1);
  struct header *header = (struct header *)(uintptr_t)address - 1;
  header->bytes = bytes;
  atomic_store(&header->state, LIVE);
  return (void *)(uintptr_t)address;
}

static struct header *header_of(void *object) {
  struct header *header = (struct header *)object - 1;
  if (!os_pages && ((uint8_t *)header < arena || (uint8_t *)object > arena + ARENA_BYTES))
    die("planted allocator: given an address that it never handed out\n");
  if (atomic_load(&header->state) != LIVE)
    die("planted allocator: given an object that is not alive\n");
  return header;
}

static void hold_when_time_comes(uint64_t number) {
  static uint64_t begin_ms;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
  if (number == 1)
    begin_ms = ms;
  if (ms < begin_ms + hold_after_ms)
    return;
  map_resident(1 << 20);
  hold_after_ms = 0;
}

/* The engine's, if it runs on planted_clock.h. */
__attribute__((weak)) void planted_spend(uint64_t cycles);
__attribute__((weak)) void planted_switch(int involuntary);

static void spend(uint64_t cycles) {
  if (planted_spend) {
    planted_spend(cycles);
    return;
  }
  uint64_t begin_cycles = os_cycles();
  while (os_cycles() - begin_cycles < cycles)
    ;
}

static bool comes_with(uint64_t number, uint64_t every) {
  return every && number % every == 0;
}

static void plant(void) {
  uint64_t number = atomic_fetch_add(&mallocs, 1) + 1;
  if (number == crash_at)
    *(volatile int *)(uintptr_t)number = 0;
  if (number == hang_at)
    for (;;)
      pause();
  if (comes_with(number, map_every)) {
    void *memory = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, MAPPED_BYTES, MADV_DONTNEED);
    munmap(memory, MAPPED_BYTES);
  }
  if (number == spike_at)
    munmap(map_resident(spike_bytes), spike_bytes);
  if (hold_after_ms)
    hold_when_time_comes(number);
  go_round(loops);
  uint64_t spin = spin_cycles + (comes_with(number, slow_every) ? slow_cycles : 0);
  if (spin)
    spend(spin);
  if (planted_switch && comes_with(number, preempt_every))
    planted_switch(1);
  if (planted_switch && comes_with(number, sleep_every))
    planted_switch(0);
}

PUBLIC void *malloc(size_t bytes) {
  plant();
  return take(16, bytes);
}

PUBLIC void free(void *object) {
  if (!object)
    return;
  struct header *header = header_of(object);
  if (atomic_exchange(&header->state, DEAD) != LIVE)
    die("planted allocator: two threads freed one object\n");
  if (os_pages && !keep_freed)
    munmap((uint8_t *)object - header->alignment, mapping_bytes(header->alignment, header->bytes));
}

PUBLIC void *calloc(size_t count, size_t bytes) {
  return take(16, count * bytes);
}

PUBLIC void *realloc(void *object, size_t bytes) {
  void *moved = take(16, bytes);
  if (moved && object) {
    uint64_t old_bytes = header_of(object)->bytes;
    memcpy(moved, object, old_bytes < bytes ? old_bytes : bytes);
    free(object);
  }
  return moved;
}

PUBLIC void *memalign(size_t alignment, size_t bytes) {
  return take(alignment, bytes);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes) {
  return take(alignment, bytes);
}

PUBLIC int posix_memalign(void **out, size_t alignment, size_t bytes) {
  *out = take(alignment, bytes);
  return *out ? 0 : 12;
}

PUBLIC int malloc_trim(size_t unused) {
  (void)unused;
  return hold_bytes == 0 || madvise(arena, hold_bytes & ~(uint64_t)(OS_PAGE_BYTES - 1), MADV_DONTNEED) == 0;
}

PUBLIC size_t malloc_usable_size(void *object) {
  return object ? header_of(object)->bytes : 0;
}
