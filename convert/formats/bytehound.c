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
#include "convert/foreign/format.h"

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

struct file {
  struct import *import;
  uint64_t header[2], taken, first_us;
};

static int take_operation(struct file *file, const struct operation *operation, uint64_t offset) {
  struct import *import = file->import;
  file->first_us = file->taken ? file->first_us : operation->time_us;
  if (++file->taken > file->header[1])
    return error_at(import->error, import->path, offset, "more than the %" PRIu64 " operations promised",
                    file->header[1]);
  if (operation->slot >= file->header[0])
    return error_at(import->error, import->path, offset, "slot %" PRIu64 ", the header claims %" PRIu64,
                    operation->slot, file->header[0]);
  uint64_t address = 16 * (operation->slot + 1);
  uint64_t since_us = operation->time_us > file->first_us ? operation->time_us - file->first_us : 0;
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

static int64_t take_operations(void *context, const struct import_piece *piece) {
  struct file *file = context;
  struct import *import = file->import;
  struct operation operation;
  size_t at = 0;
  if (piece->offset == 0 && piece->count >= HEADER_BYTES) {
    memcpy(file->header, piece->at, HEADER_BYTES);
    if (file->header[0] > MAX_SLOTS)
      return error_at(import->error, import->path, 0, "claims %" PRIu64 " slots", file->header[0]);
    at = HEADER_BYTES;
  }
  for (; piece->offset + at > 0 && piece->count - at >= sizeof operation; at += sizeof operation) {
    memcpy(&operation, piece->at + at, sizeof operation);
    if (take_operation(file, &operation, piece->offset + at) != 0)
      return -1;
  }
  if (piece->is_end && (piece->count > at || piece->offset + at == 0))
    return error_at(import->error, import->path, piece->offset + at, "cut off: %zu bytes are left over",
                    piece->count - at);
  if (piece->is_end && file->taken < file->header[1])
    import_note(import, "%" PRIu64 " of %" PRIu64 " operations: the export was filtered, or cut off", file->taken,
                file->header[1]);
  return (int64_t)at;
}

static int run(struct import *import) {
  static const struct import_facts facts = {
      .clock = "nanoseconds",
      .order = "file",
      .source = "bytehound export-replay",
      .lacks = "start threads names alignment addresses failures usable_size",
      .note = "Addresses are made up: 16 times a slot plus 16. Times are in microseconds.",
      .origin_stamp = 1};
  struct file file = {.import = import};
  return import_bytes(import, &facts, take_operations, &file);
}

static const struct import_format import_format = {.recognises_bytes = recognises, .run = run};

REGISTER_FORMAT(.name = "bytehound", .description = "what bytehound export-replay writes (convert/formats/bytehound.c)",
                .import = &import_format);
