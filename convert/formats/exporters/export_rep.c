/* SPDX-License-Identifier: MIT */
/* CS:APP malloc lab's .rep (import_rep.c shows it). The header's numbers come first, so there are two runs over the
   history.

   The format has malloc, realloc and free of one thread on numbered objects. All other calls that acquire become
   malloc, of the product for calloc and reallocarray; an object keeps its number when it is reallocated. An object that
   is reallocated to 0 bytes and lives gets 1 byte, as 0 means free in the format. Lost: threads, times, addresses,
   alignments, malloc_usable_size, failed calls, and everything in the trace besides its calls. */
#include "convert/formats/exporters/exporting.h"
#include "core/base/address_map.h"

#include <inttypes.h>

struct rep {
  bool counting;
  uint64_t requests, ids;
  /* The object numbers of exporting.c change with each realloc; those of .rep don't. A table of live objects maps the
     latest number to the .rep id. */
  struct address_map numbers; /* number + 1 as address, slot: the .rep id */
};

static uint64_t bytes_of(const struct export_call *call) {
  uint64_t bytes;
  return __builtin_mul_overflow(call->size_bytes, call->kind == EXPORT_CALLOC ? call->count : 1, &bytes) ? UINT64_MAX
                                                                                                         : bytes;
}

static int remember(struct export *export, struct rep *rep, uint64_t number, uint64_t id) {
  struct address_entry *entry = address_map_find(&rep->numbers, number);
  if (id >= UINT32_MAX || !address_map_add(&rep->numbers, entry, number, (uint32_t)id, false))
    return error_set(export->error, export->out_name, "too many objects for memory, or for .rep");
  return 0;
}

static void put_sized(FILE *out, char letter, uint64_t id, uint64_t size_bytes) {
  fprintf(out, "%c %" PRIu64 " %" PRIu64 "\n", letter, id, letter == 'r' && size_bytes == 0 ? 1 : size_bytes);
}

static int take(struct export *export, const struct export_call *call) {
  struct rep *rep = export->context;
  FILE *out = export->out;
  rep->requests++;
  uint64_t id = 0;
  if (call->released_number) {
    struct address_entry *entry = address_map_find(&rep->numbers, call->released_number);
    id = entry->slot;
    address_map_remove(&rep->numbers, entry);
  } else if (call->number) {
    id = rep->ids++;
  }
  if (call->number && remember(export, rep, call->number, id) != 0)
    return -1;
  if (rep->counting)
    return 0;
  if (call->kind == EXPORT_FREE && !call->released_number)
    fputs("f -1\n", out);
  else if (call->kind == EXPORT_FREE)
    fprintf(out, "f %" PRIu64 "\n", id);
  else
    put_sized(out, call->released_number ? 'r' : 'a', id, bytes_of(call));
  return ferror(out) ? export_write_failed(export) : 0;
}

static int pass(struct export *export, struct rep *rep, struct witness *witness) {
  rep->requests = rep->ids = 0;
  export->lost = (struct export_lost){0};
  if (!address_map_init(&rep->numbers))
    return error_set(export->error, export->out_name, "out of memory");
  int result = export_calls(export, witness);
  address_map_free(&rep->numbers);
  return result;
}

static int run(struct export *export) {
  struct witness witness;
  struct rep rep = {.counting = true};
  export->take = take;
  export->context = &rep;
  if (pass(export, &rep, &witness) != 0)
    return -1;
  fprintf(export->out, "%" PRIu64 "\n%" PRIu64 "\n%" PRIu64 "\n1\n", witness.peak_live_bytes, rep.ids, rep.requests);
  rep.counting = false;
  return pass(export, &rep, &witness);
}

const struct export_format export_format_rep = {run};
