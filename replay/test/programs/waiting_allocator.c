/* SPDX-License-Identifier: MIT */
/* A malloc library whose threads wait exactly as often as planned, for the contention pass's tests. Memory is handed
   out once and never taken back.

   What else a call does depends on the size of the object that it makes, or frees, modulo 16:
     1  holds `waiting_lock` until another thread has come to wait for it (as it makes the object, not as it frees it)
     2  waits for `waiting_lock`, once: until a thread holds it, and then until that thread gives it back
     3  waits for a word of mapped memory that has changed already (the kernel refuses), or for WAITING_WORDS of them
     4  the same for a word of this library that only its full symbol table names: `waiting_inside`
     5  sched_yield()
     6  nanosleep() of 1 ns
     7  the same until the kernel has counted that it gave the processor away: a timer may expire before the thread
   sleeps So there must be as many holds by one thread as waits by another. Environment: WAITING_AT_END=1: each thread
   that called ends with a sched_yield() in a destructor. WAITING_BACKGROUND=1: the first call starts a thread with all
   signals blocked, and returns when that has yielded 1000 times. */
#include "core/test/usual.h"

#include <linux/futex.h>

#define PUBLIC __attribute__((visibility("default")))
#define ARENA_BYTES ((uint64_t)1 << 30)

enum { HEADER_BYTES = 16, BACKGROUND_YIELDS = 1000 };

PUBLIC _Atomic uint32_t waiting_lock;
static _Atomic uint32_t waiters;
static _Atomic uint32_t waiting_inside __attribute__((used));
static _Atomic uint32_t *mapped_words;
static uint64_t mapped_count = 1;
static uint8_t *arena;
static _Atomic uint64_t used;
static bool at_end, background;
static pthread_key_t key;
static _Atomic bool background_started, background_done;

static void yield_once(void *value) {
  (void)value;
  sched_yield();
}

__attribute__((constructor)) static void begin(void) {
  if (arena)
    return;
  arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (getenv("WAITING_WORDS"))
    mapped_count = strtoull(getenv("WAITING_WORDS"), NULL, 10);
  mapped_words =
      mmap(NULL, mapped_count * sizeof *mapped_words, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena == MAP_FAILED || mapped_words == MAP_FAILED)
    abort();
  at_end = getenv("WAITING_AT_END") != NULL;
  background = getenv("WAITING_BACKGROUND") != NULL;
  if (at_end)
    pthread_key_create(&key, yield_once);
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* poll, as the pass observes neither that nor a spinning thread, and this wait must not count. */
static void let_others_run(void) {
  poll(NULL, 0, 1);
}

static void hold(void) {
  atomic_store(&waiting_lock, 1);
  while (atomic_load(&waiters) == 0)
    let_others_run();
  atomic_store(&waiting_lock, 0);
  futex(&waiting_lock, FUTEX_WAKE_PRIVATE, 1);
  while (atomic_load(&waiters) > 0) /* else it would find the lock of the next hold */
    let_others_run();
}

static void wait_for_lock(void) {
  while (atomic_load(&waiting_lock) == 0)
    let_others_run();
  atomic_fetch_add(&waiters, 1);
  do
    futex(&waiting_lock, FUTEX_WAIT_PRIVATE, 1);
  while (atomic_load(&waiting_lock) != 0);
  atomic_fetch_sub(&waiters, 1);
}

/* A C++ compiler's name for the function quiet::yields(). */
__attribute__((noinline)) void _ZN5quiet6yieldsEv(void);
void _ZN5quiet6yieldsEv(void) {
  sched_yield();
  __asm__ volatile(""); /* keeps the call from becoming a jump */
}

static long switches_of_thread(void) {
  struct rusage usage = {0};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

static void plant(uint64_t bytes, bool makes) {
  struct timespec shortly = {0, 1};
  switch (bytes % 16) {
  case 1:
    if (makes)
      hold();
    break;
  case 2:
    wait_for_lock();
    break;
  case 3:
    for (uint64_t word = 0; word < mapped_count; word++)
      futex(&mapped_words[word], FUTEX_WAIT_PRIVATE, 1);
    break;
  case 4:
    futex(&waiting_inside, FUTEX_WAIT_PRIVATE, 1);
    break;
  case 5:
    _ZN5quiet6yieldsEv();
    break;
  case 6:
    nanosleep(&shortly, NULL);
    break;
  case 7:
    for (long before = switches_of_thread(); switches_of_thread() == before;)
      nanosleep(&shortly, NULL);
    break;
  default:
    break;
  }
}

static void *take(uint64_t bytes) {
  if (!arena)
    begin();
  uint64_t room = HEADER_BYTES + ((bytes + 15) & ~(uint64_t)15), at = atomic_fetch_add(&used, room);
  if (bytes >= ARENA_BYTES || at + room > ARENA_BYTES)
    return NULL;
  memcpy(arena + at, &bytes, sizeof bytes);
  return arena + at + HEADER_BYTES;
}

static uint64_t bytes_of(const void *object) {
  uint64_t bytes;
  memcpy(&bytes, (const uint8_t *)object - HEADER_BYTES, sizeof bytes);
  return bytes;
}

static void *yield_often(void *unused) {
  (void)unused;
  for (int count = 0; count < BACKGROUND_YIELDS; count++)
    sched_yield();
  atomic_store(&background_done, true);
  return NULL;
}

static void start_background(void) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, NULL, yield_often, NULL) != 0)
    abort();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  while (!atomic_load(&background_done))
    let_others_run();
}

/* Starting a thread allocates: in that nested call none is started. */
static void before_call(void) {
  if (background && !atomic_exchange(&background_started, true))
    start_background();
  if (at_end)
    pthread_setspecific(key, &key);
}

PUBLIC void *malloc(size_t bytes) {
  before_call();
  plant(bytes, true);
  return take(bytes);
}

PUBLIC void free(void *object) {
  if (object)
    plant(bytes_of(object), false);
}

PUBLIC void *calloc(size_t count, size_t bytes) {
  before_call();
  plant(count * bytes, true);
  return take(count * bytes);
}

PUBLIC void *realloc(void *object, size_t bytes) {
  plant(bytes, true);
  void *moved = take(bytes);
  if (moved && object)
    memcpy(moved, object, bytes_of(object) < bytes ? bytes_of(object) : bytes);
  return moved;
}

PUBLIC int posix_memalign(void **out, size_t alignment, size_t bytes) {
  plant(bytes, true);
  *out = alignment <= 16 ? take(bytes) : NULL;
  return *out ? 0 : ENOMEM;
}
