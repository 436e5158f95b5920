/* SPDX-License-Identifier: MIT */
/* The binary trace of glibc's dj/malloc branch and of glibc-malloc-trace-utils: records of 64 bytes in the byte order
   of the machine that wrote it (only this machine's own order is read):

     offset  0  i32 thread                 4  u32 type in the low 8 bits, the path through malloc above
             8  u64 ptr1                  16  u64 ptr2
            24  u64 size  32  u64 size2  40  u64 size3   48  padding

     1 malloc    ptr2 = malloc(size)            5 memalign  ptr2 = memalign(size2, size)
     2 calloc    ptr2 = calloc(...), size is the product: calloc(1, size)
     3 free      free(ptr1)                     6 valloc, 7 pvalloc   ptr2 = valloc(size)
     4 realloc   ptr2 = realloc(ptr1, size)     8 posix_memalign      ptr1 is its error, ptr2 the address
     0 unused, 255 magic: left out

     e.g. thread 7, type 1, ptr2 0x1010, size 24 becomes malloc(24) = 0x1010 of thread 0

   A record takes its place when the call begins, so an acquire may precede the release that made it possible. The
   stamps are the records' numbers, and the history repairs such inversions ("order": "logged"). */
#include "convert/foreign/format.h"

struct dj_record {
  int32_t thread;
  uint32_t type_and_path;
  uint64_t ptr1, ptr2, size, size2, size3, padding[2];
};
_Static_assert(sizeof(struct dj_record) == 64, "a record is 64 bytes");

enum dj_type {
  DJ_UNUSED,
  DJ_MALLOC,
  DJ_CALLOC,
  DJ_FREE,
  DJ_REALLOC,
  DJ_MEMALIGN,
  DJ_VALLOC,
  DJ_PVALLOC,
  DJ_POSIX_MEMALIGN,
  DJ_MAGIC = 255
};

static bool is_record(const struct dj_record *record) {
  unsigned type = record->type_and_path & 0xff;
  if (type == DJ_UNUSED)
    return record->thread == 0 && record->ptr1 == 0 && record->ptr2 == 0 && record->size == 0;
  return type == DJ_MAGIC || (record->thread > 0 && type <= DJ_POSIX_MEMALIGN);
}

/* The file has no magic number; it is recognised by whole records throughout its beginning, not all of them unused. */
static bool recognises(const struct import_sample *start) {
  bool used = false;
  if (start->file_bytes % sizeof(struct dj_record) != 0 || start->count < sizeof(struct dj_record))
    return false;
  for (size_t at = 0; at + sizeof(struct dj_record) <= start->count; at += sizeof(struct dj_record)) {
    struct dj_record record;
    memcpy(&record, start->bytes + at, sizeof record);
    if (!is_record(&record))
      return false;
    used |= (record.type_and_path & 0xff) != DJ_UNUSED;
  }
  return used;
}

static bool event_of(const struct dj_record *record, struct trace_event *event) {
  switch (record->type_and_path & 0xff) {
  case DJ_MALLOC:
    *event = event_of_acquire(CALL_malloc, record->ptr2, record->size, 0);
    return true;
  case DJ_CALLOC:
    *event = event_of_acquire(CALL_calloc, record->ptr2, record->size, 1);
    return true;
  case DJ_FREE:
    *event = event_of_release(CALL_free, record->ptr1);
    return true;
  case DJ_REALLOC:
    *event = event_of_realloc(CALL_realloc, record->ptr1, record->ptr2, record->size, 0);
    return true;
  case DJ_MEMALIGN:
    *event = event_of_acquire(CALL_memalign, record->ptr2, record->size, record->size2);
    return true;
  case DJ_VALLOC:
    *event = event_of_acquire(CALL_valloc, record->ptr2, record->size, 0);
    return true;
  case DJ_PVALLOC:
    *event = event_of_acquire(CALL_pvalloc, record->ptr2, record->size, 0);
    return true;
  case DJ_POSIX_MEMALIGN:
    *event = event_of_acquire(CALL_posix_memalign, record->ptr1 ? 0 : record->ptr2, record->size, record->size2);
    return true;
  default:
    return false;
  }
}

static int take_record(struct import *import, const struct dj_record *record, uint64_t number) {
  struct trace_event event;
  unsigned type = record->type_and_path & 0xff;
  if (type == DJ_UNUSED || type == DJ_MAGIC)
    return 0;
  if (!event_of(record, &event))
    return error_at(import->error, import->path, (number - 1) * sizeof *record,
                    "record of unknown type %u: not a dj/malloc trace", type);
  return import_event_by_number(import, (uint32_t)record->thread, number, &event);
}

static int64_t take_records(void *context, const struct import_piece *piece) {
  struct import *import = context;
  const struct dj_record *record = (const struct dj_record *)(const void *)piece->at;
  size_t count = piece->count / sizeof *record;
  for (size_t i = 0; i < count; i++)
    if (take_record(import, &record[i], piece->offset / sizeof *record + i + 1) != 0)
      return -1;
  size_t whole = count * sizeof *record;
  if (piece->is_end && piece->count > whole)
    return error_at(import->error, import->path, piece->offset + whole,
                    "%zu bytes are left over: a dj/malloc trace is records of 64 bytes", piece->count - whole);
  return (int64_t)whole;
}

static int run(struct import *import) {
  static const struct import_facts facts = {
      .clock = "counter",
      .order = "logged",
      .source = "dj/malloc trace",
      .lacks = "start times usable_size",
      .note = "calloc's two numbers are one product here. Records are in the order in which calls began."};
  return import_bytes(import, &facts, take_records, import);
}

static const struct import_format import_format = {.recognises_bytes = recognises, .run = run};

REGISTER_FORMAT(.name = "dj", .description = "dj/malloc's binary trace of 64-byte records (convert/formats/dj.c)",
                .import = &import_format);
