/* SPDX-License-Identifier: MIT */
#include "replay/accesses/perform.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/trace/access_stream.h"
#include "replay/accesses/access_byte.h"
#include "replay/accesses/other_memory.h"
#include "replay/accesses/prepared.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

/* The size of other memory as an object: beyond any granule that is accessed. */
static const uint64_t OTHER_BYTES = (uint64_t)INT32_MAX << ACCESS_GRANULE_SHIFT;

/* Where objects are, by slot, in half the size of engine.objects, as each access reads it: the address in the high 48
   bits, below it the size in bytes; PLACE_LARGE: at least that, see engine.objects. 0: no object. */
enum { PLACE_SIZE_BITS = 16, PLACE_LARGE = 0xffff };
static uint64_t *places;

static uint64_t place_of(const struct object *object) {
  if (!object->pointer)
    return 0;
  uint64_t bytes = object->size_bytes < PLACE_LARGE ? object->size_bytes : PLACE_LARGE;
  return (uint64_t)(uintptr_t)object->pointer << PLACE_SIZE_BITS | bytes;
}

static void map_places(uint32_t slots) {
  uint64_t bytes = slots * sizeof *places;
  places = os_map(bytes, false);
  if (!places)
    engine_fail(NULL, "no memory for %" PRIu32 " slots: %s", slots, strerror(errno));
  madvise(places, bytes, MADV_HUGEPAGE); /* so that they take few entries of the TLB */
  memset(places, 0, bytes);
}

static struct {
  const uint64_t *next;
  /* An access's address is (address & keep) | line: the recorded one, or the same for all. */
  uintptr_t keep, line;
  bool dependent;
  uint64_t lost, outside, prepare_cpu_ns;
} now;

/* The line to which all accesses go when the engine's own share is measured. */
static _Alignas(64) uint8_t one_line[64] = {1};

void perform_begin(const struct replay_setup *setup) {
  void *other = other_memory_setup();
  if (!other)
    engine_fail(NULL, "no address space for other memory: %s", strerror(errno));
  uint32_t other_slot = engine.workload.header.slots;
  engine.objects[other_slot] = (struct object){other, OTHER_BYTES};
  map_places(other_slot + 1);
  places[other_slot] = place_of(&engine.objects[other_slot]);
  prepared_open(setup->accesses_path, other_slot);
  bool own_share = setup->access_mode == ACCESS_OWN_SHARE;
  now.keep = own_share ? 0 : UINTPTR_MAX;
  now.line = own_share ? (uintptr_t)one_line : 0;
  now.dependent = setup->access_mode == ACCESS_DEPENDENT;
  now.next = prepared_next_piece();
}

/* For an access outside of its object of `bytes` bytes: finds the nearest byte inside. False: the object has none. */
static __attribute__((noinline)) bool find_nearest(uint64_t bytes, uint64_t *offset) {
  if (bytes == 0) {
    now.lost++;
    return false;
  }
  now.outside++;
  *offset = (int64_t)*offset < 0 ? 0 : bytes - 1;
  return true;
}

/* Performs the accesses up to the next mark, and returns the mark. */
static ALWAYS_INLINE enum item_mark perform_as(const bool dependent) {
  const uint64_t *place_table = places, *next = now.next;
  const uintptr_t keep = now.keep, line = now.line;
  uintptr_t zero = 0, carried = 0;
  __asm__("" : "+r"(zero)); /* hidden from the compiler, or no access would depend on another */
  uint64_t item;
  while (item_slot(item = *next++) != ITEM_NO_SLOT) {
    uint64_t place = place_table[item_slot(item)], bytes = place & PLACE_LARGE;
    uint64_t offset = (uint64_t)((int64_t)item_granule(item) * ACCESS_GRANULE_BYTES);
    if (bytes == PLACE_LARGE)
      bytes = engine.objects[item_slot(item)].size_bytes;
    if (unlikely(offset >= bytes) && !find_nearest(bytes, &offset))
      continue;
    uintptr_t address = (((place >> PLACE_SIZE_BITS) + offset + carried) & keep) | line;
    uint8_t value = access_byte((volatile uint8_t *)address);
    if (dependent)
      carried = value & zero;
  }
  now.next = next;
  return (enum item_mark)item_granule(item);
}

/* The same, across the ends of pieces. */
static enum item_mark perform(void) {
  for (;;) {
    enum item_mark mark = now.dependent ? perform_as(true) : perform_as(false);
    if (mark != ITEM_PIECE_END)
      return mark;
    uint64_t begin_ns = os_thread_cpu_ns();
    now.next = prepared_next_piece();
    now.prepare_cpu_ns += os_thread_cpu_ns() - begin_ns;
  }
}

void perform_before_op(struct worker *worker) {
  uint64_t prepare_cpu_ns = now.prepare_cpu_ns;
  if (unlikely(perform() != ITEM_OP))
    engine_fail(NULL, "%s: fewer calls than the workload: the file was changed meanwhile",
                engine.result->setup.accesses_path);
  worker->prepare_cpu_ns += now.prepare_cpu_ns - prepare_cpu_ns;
}

void perform_after_op(uint32_t slot) {
  if (slot < engine.workload.header.slots)
    places[slot] = place_of(&engine.objects[slot]);
}

void perform_end(struct replay_result *result) {
  uint64_t prepared_ns = now.prepare_cpu_ns, begin_ns = os_thread_cpu_ns();
  if (perform() != ITEM_STREAM_END)
    engine_fail(NULL, "%s: more calls than the workload: the file was changed meanwhile", result->setup.accesses_path);
  result->cpu_ns += os_thread_cpu_ns() - begin_ns - (now.prepare_cpu_ns - prepared_ns);
  struct prepared_counts counts = prepared_counts();
  result->accesses = (struct replay_accesses){
      counts.accesses, counts.object_accesses, now.lost, now.outside, counts.items * sizeof(uint64_t),
  };
}
