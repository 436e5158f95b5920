/* SPDX-License-Identifier: MIT */
/* What `bytehound export-replay` writes: u64 numbers in the byte order of the machine that wrote it (only this
   machine's own order is read). First the number of slots and of operations, then four numbers for each:

     1 SLOT TIME SIZE    an object of SIZE bytes was handed out
     2 SLOT TIME 0       it was freed
     3 SLOT TIME SIZE    it was reallocated to SIZE bytes

     e.g. 1 0 5000 24, then 2 0 5010 0 becomes malloc(24) = 0x10, free(0x10) at 0 and 10 microseconds

   in the order of time, which is in microseconds. A slot is an object's number, used again after its release; its
   address here is 16 (slot + 1), which only distinguishes objects ("addresses" in `lacks`). A filtered export has fewer
   operations than its header claims. */
#include "convert/formats/importing.h"

#include <inttypes.h>

struct operation {
  uint64_t kind, slot, time_us, size_bytes;
};

enum { ALLOCATED = 1, FREED = 2, REALLOCATED = 3, HEADER_BYTES = 16 };
#define MAX_SLOTS (UINT64_C(1) << 48)

static bool recognises(const struct import_sample *start) {
  uint64_t header[2];
  struct operation first;
  if (start->count < HEADER_BYTES + sizeof first || (start->file_bytes - HEADER_BYTES) % sizeof first != 0)
    return false;
  memcpy(header, start->bytes, sizeof header);
  memcpy(&first, start->bytes + HEADER_BYTES, sizeof first);
  return first.kind == ALLOCATED && first.slot == 0 && header[0] > 0 && header[0] <= header[1] &&
         header[1] >= (start->file_bytes - HEADER_BYTES) / sizeof first;
}

static int take_operation(struct import *import, const struct operation *operation, uint64_t slots, uint64_t offset,
                          uint64_t first_us) {
  if (operation->slot >= slots)
    return error_at(import->error, import->path, offset, "slot %" PRIu64 ", the header claims %" PRIu64,
                    operation->slot, slots);
  uint64_t address = 16 * (operation->slot + 1);
  uint64_t since_us = operation->time_us > first_us ? operation->time_us - first_us : 0;
  if (since_us > UINT64_MAX / 2000)
    return error_at(import->error, import->path, offset, "time %" PRIu64 " us is too far from the first",
                    operation->time_us);
  struct trace_event event;
  switch (operation->kind) {
  case ALLOCATED:
    event = event_of_acquire(CALL_malloc, address, operation->size_bytes, 0);
    break;
  case FREED:
    event = event_of_release(CALL_free, address);
    break;
  case REALLOCATED:
    event = event_of_realloc(CALL_realloc, address, address, operation->size_bytes, 0);
    break;
  default:
    return error_at(import->error, import->path, offset, "operation of unknown kind %" PRIu64, operation->kind);
  }
  return import_only_thread(import, since_us * 1000 + 1, &event);
}

static int take_operations(struct import *import, struct byte_source *source) {
  struct operation operations[2048];
  uint64_t header[2] = {0, 0}, offset = 0, taken = 0, first_us = 0;
  size_t have = 0;
  int64_t got;
  while ((got = byte_source_read(source, (char *)operations + have, sizeof operations - have)) > 0) {
    const char *at = (const char *)operations;
    have += (size_t)got;
    if (offset == 0 && have >= HEADER_BYTES) {
      memcpy(header, at, HEADER_BYTES);
      at += HEADER_BYTES;
      have -= HEADER_BYTES;
      offset = HEADER_BYTES;
      if (header[0] > MAX_SLOTS)
        return error_at(import->error, import->path, 0, "claims %" PRIu64 " slots", header[0]);
    }
    for (; offset && have >= sizeof *operations; have -= sizeof *operations, at += sizeof *operations) {
      struct operation operation;
      memcpy(&operation, at, sizeof operation);
      first_us = taken ? first_us : operation.time_us;
      if (++taken > header[1])
        return error_at(import->error, import->path, offset, "more than the %" PRIu64 " operations promised",
                        header[1]);
      if (take_operation(import, &operation, header[0], offset, first_us) != 0)
        return -1;
      offset += sizeof operation;
    }
    memmove(operations, at, have);
  }
  if (got == 0 && (have || !offset))
    return error_at(import->error, import->path, offset, "cut off: %zu bytes are left over", have);
  if (got == 0 && taken < header[1])
    import_note(import, "%" PRIu64 " of %" PRIu64 " operations: the export was filtered, or cut off", taken, header[1]);
  return got < 0 ? -1 : 0;
}

static int run(struct import *import) {
  static const struct import_facts facts = {
      .clock = "nanoseconds",
      .order = "file",
      .source = "bytehound export-replay",
      .lacks = "start threads names alignment addresses failures usable_size",
      .note = "Addresses are made up: 16 times a slot plus 16. Times are in microseconds.",
      .origin_stamp = 1};
  return import_bytes(import, &facts, take_operations);
}

static const struct import_format import_format = {.recognises_bytes = recognises, .run = run};

REGISTER_FORMAT(.name = "bytehound", .description = "what bytehound export-replay writes (convert/formats/bytehound.c)",
                .import = &import_format);
