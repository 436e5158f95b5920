/* SPDX-License-Identifier: MIT */
#include "replay/passes/contention/contention.h"

#include "core/base/os_switch.h"
#include "core/elf/elf.h"
#include "replay/engine/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PROBES = 64 };

/* Of the calling thread. */
struct contention_mark {
  bool inside; /* of a call */
  uint8_t call;
  unsigned size_class;
  volatile uint64_t *switch_word;  /* of the thread (os_switch.h) */
  uint64_t no_switch_word;         /* used where the thread has none */
  uint64_t voluntary, involuntary; /* context switches of the thread, as last read */
};

static __thread struct contention_mark contention_mark;
static uint64_t contention_switch_armed; /* the value that arms a switch word */

static struct contention *figures;

static void add_wait(struct wait_sums *sums, const struct trapped_wait *wait) {
  atomic_fetch_add(&sums->count, 1);
  atomic_fetch_add(&sums->at_once, wait->at_once);
  atomic_fetch_add(&sums->time_ns, wait->time_ns);
  uint64_t most = atomic_load(&sums->max_ns);
  while (wait->time_ns > most && !atomic_compare_exchange_weak(&sums->max_ns, &most, wait->time_ns))
    ;
}

/* Finds or makes the row; NULL: its part of the rows is full. */
static struct wait_row *row_of(uint64_t key) {
  uint64_t place = key * 0x9e3779b97f4a7c15u >> 50;
  for (unsigned probe = 0; probe < PROBES && key; probe++, place++) {
    struct wait_row *row = &figures->rows[place & (WAIT_ROWS - 1)];
    uint64_t found = 0;
    if (atomic_compare_exchange_strong(&row->key, &found, key) || found == key)
      return row;
  }
  return NULL;
}

static void on_wait(const struct trapped_wait *wait) {
  const struct contention_mark *mark = &contention_mark;
  if (!mark->inside) {
    atomic_fetch_add(&figures->outside, 1);
    return;
  }
  struct wait_row *row = row_of(wait_key(wait->address, wait->kind, mark->call, mark->size_class));
  add_wait(row ? &row->sums : &figures->overflow[wait->kind][mark->call][mark->size_class], wait);
}

static void read_switches(uint64_t *voluntary, uint64_t *involuntary) {
  struct rusage usage = {0};
  getrusage(RUSAGE_THREAD, &usage);
  *voluntary = (uint64_t)usage.ru_nvcsw;
  *involuntary = (uint64_t)usage.ru_nivcsw;
}

static __attribute__((noinline)) void contention_was_off(void) {
  read_switches(&contention_mark.voluntary, &contention_mark.involuntary);
}

static __attribute__((noinline)) void contention_switched_inside(void) {
  struct contention_mark *mark = &contention_mark;
  uint64_t voluntary = mark->voluntary, involuntary = mark->involuntary;
  read_switches(&mark->voluntary, &mark->involuntary);
  atomic_fetch_add(&figures->voluntary[mark->call], mark->voluntary - voluntary);
  atomic_fetch_add(&figures->involuntary[mark->call], mark->involuntary - involuntary);
}

static void setup(void) {
  figures = engine.figures;
  contention_switch_armed = os_switch_armed();
  figures->switches_known = contention_switch_armed != 0 && os_switch_word();
  if (!figures->switches_known)
    contention_switch_armed = 1; /* written to words that the kernel does not clear */
  if (trap_install(on_wait) != 0)
    engine_fail(NULL, "waits can't be seen, as a seccomp filter is not allowed here: %s", strerror(errno));
  figures->trap_ns = trap_measure_ns();
  atomic_store(&figures->outside, 0); /* the waits of the measurement */
}

static void thread_begins(struct replay_thread *self) {
  (void)self;
  struct contention_mark *mark = &contention_mark;
  mark->inside = false;
  mark->switch_word = figures->switches_known ? os_switch_word() : NULL;
  if (!mark->switch_word)
    mark->switch_word = &mark->no_switch_word;
  contention_was_off();
}

/* What the allocator still does in the thread counts as WAIT_CALL_THREAD_END. */
static void thread_ends(struct replay_thread *self) {
  (void)self;
  contention_mark.call = WAIT_CALL_THREAD_END;
  contention_mark.size_class = 0;
  atomic_signal_fence(memory_order_seq_cst);
  contention_mark.inside = true;
}

/* Call these around each call. bytes: of the object that the call acquires or releases. */
static ALWAYS_INLINE void contention_enter(uint8_t call, uint64_t bytes) {
  struct contention_mark *mark = &contention_mark;
  if (__builtin_expect(*mark->switch_word == 0, 0))
    contention_was_off();
  *mark->switch_word = contention_switch_armed;
  mark->call = call & CALL_ID_MASK;
  mark->size_class = size_class(bytes);
  /* A signal handler of this thread reads it. */
  atomic_signal_fence(memory_order_seq_cst);
  mark->inside = true;
  atomic_signal_fence(memory_order_seq_cst);
}

static ALWAYS_INLINE void contention_leave(void) {
  atomic_signal_fence(memory_order_seq_cst);
  contention_mark.inside = false;
  if (__builtin_expect(*contention_mark.switch_word == 0, 0))
    contention_switched_inside();
}

static ALWAYS_INLINE void *call(const struct step *step) {
  uint64_t cycles;
  bool isolated = step->op->region != 0;
  if (!isolated)
    contention_enter(step->op->call, step_bytes(step));
  void *answer = call_entry(step->dispatch.entry, step->op, false, &cycles);
  if (!isolated)
    contention_leave();
  return answer;
}

static const struct loop_hooks hooks = {.call = call};
PASS_LOOPS(contention, hooks, hooks)

/* glibc's struct malloc_state: its lock is first; its bins are heads of rings, each as if it were a chunk 16 bytes
   further down, and an empty one points to itself. This holds since 2.27, on 64 bits. */
enum { ARENA_FIRST_BIN = 112, ARENA_BINS = 127, ARENA_BYTES = ARENA_FIRST_BIN + 16 * ARENA_BINS, FEWEST_EMPTY = 16 };

static int add_object(struct dl_phdr_info *about, size_t size, void *context) {
  (void)size;
  struct contention *contention = context;
  if (contention->object_count == LOADED_OBJECTS)
    return 1;
  struct loaded_object *object = &contention->objects[contention->object_count++];
  const struct elf_segments segments = {about->dlpi_phdr, about->dlpi_phnum, about->dlpi_addr};
  struct elf_extent extent = elf_extent(&segments);
  *object = (struct loaded_object){.first = extent.from, .last = extent.to, .bias = about->dlpi_addr};
  if (about->dlpi_name[0])
    snprintf(object->path, sizeof object->path, "%s", about->dlpi_name);
  else if (readlink("/proc/self/exe", object->path, sizeof object->path - 1) < 0)
    object->path[0] = '\0';
  return 0;
}

/* memory: a file, as a lock's memory may be gone. */
static bool is_arena(int memory, uint64_t address) {
  uint64_t words[ARENA_BYTES / sizeof(uint64_t)];
  if (address % sizeof *words != 0 || pread(memory, words, sizeof words, (off_t)address) != sizeof words)
    return false;
  unsigned empty = 0;
  for (unsigned bin = 0; bin < ARENA_BINS; bin++) {
    const uint64_t *ends = &words[ARENA_FIRST_BIN / sizeof *words + 2 * (uint64_t)bin];
    uint64_t itself = address + ARENA_FIRST_BIN + 16 * (uint64_t)bin - 16;
    if (ends[0] == 0 || ends[1] == 0 || (ends[0] == itself) != (ends[1] == itself))
      return false;
    empty += ends[0] == itself;
  }
  return empty >= FEWEST_EMPTY;
}

static bool known(const struct contention *contention, uint64_t address) {
  for (uint32_t index = 0; index < contention->arena_count; index++)
    if (contention->arenas[index] == address)
      return true;
  return false;
}

static void find_arenas(struct contention *contention, int memory) {
  for (unsigned index = 0; index < WAIT_ROWS; index++) {
    uint64_t key = contention->rows[index].key, address = wait_key_address(key);
    if (key == 0 || wait_key_kind(key) != WAIT_FUTEX || contention->arena_count == ARENAS_LIMIT ||
        known(contention, address))
      continue;
    if (is_arena(memory, address))
      contention->arenas[contention->arena_count++] = address;
  }
}

/* Finds what is loaded where, and which locks are arenas: no thread waits any more. Arenas that were mapped have no
   symbol, and none has one where the C library was stripped. */
static void places_find(struct contention *contention) {
  dl_iterate_phdr(add_object, contention);
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (memory < 0)
    return;
  find_arenas(contention, memory);
  close(memory);
}

static void end(void) {
  places_find(figures);
}

static const struct pass pass_contention = {
    .turn = 90,
    .name = "contention",
    .summary = "waits of threads inside calls, by lock and call",
    .order = ORDER_WINDOW,
    .repeats = REPEATED,
    .own_counters = true,
    .loops = {contention_freely, contention_by_turns},
    .figures_bytes = sizeof(struct contention),
    .setup = setup,
    .end = end,
    .thread_begins = thread_begins,
    .thread_ends = thread_ends,
    .report = contention_report,
};
REGISTER_PASS(pass_contention);
