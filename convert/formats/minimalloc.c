/* SPDX-License-Identifier: MIT */
/* MiniMalloc's CSV, which solvers of dynamic storage allocation read, e.g.

     id,lower,upper,size
     1,0,7,24

   An object lives from call `lower` until before call `upper`, counted from 0; one that is never released lives until
   after the last call. A realloc ends one object and begins another at the same call. Objects of 0 bytes get 1 byte.
   Rows are in the order of the acquires, so all are kept until the end: 24 bytes each. Lost: threads, times,
   alignments, which call it was, failed calls, and everything in the trace besides its objects. */
#include "convert/formats/exporting.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct lifetime {
  uint64_t lower, upper, size_bytes;
};

struct instance {
  uint64_t calls;
  VECTOR(struct lifetime) objects; /* by number, from 1 */
};

static int take(struct export *export, const struct export_call *call) {
  struct instance *instance = export->context;
  uint64_t at = instance->calls++;
  if (call->released_number)
    instance->objects.at[call->released_number - 1].upper = at;
  if (!call->number)
    return 0;
  struct lifetime *object = vector_reach(&instance->objects, call->number - 1);
  if (!object)
    return error_set(export->error, export->out_name, "too many objects for memory");
  *object = (struct lifetime){.lower = at, .upper = UINT64_MAX, .size_bytes = call->bytes ? call->bytes : 1};
  instance->objects.count = call->number;
  return 0;
}

static int run_export(struct export *export) {
  struct witness witness;
  struct instance instance = {0};
  export->take = take;
  export->context = &instance;
  int result = export_calls(export, &witness);
  if (result == 0)
    fputs("id,lower,upper,size\n", export->out);
  for (size_t i = 0; result == 0 && i < instance.objects.count; i++) {
    const struct lifetime *one = &instance.objects.at[i];
    fprintf(export->out, "%zu,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", i + 1, one->lower,
            one->upper == UINT64_MAX ? instance.calls : one->upper, one->size_bytes);
  }
  free(instance.objects.at);
  return result == 0 && ferror(export->out) ? export_write_failed(export) : result;
}

static const struct export_format export_format = {export_trace, run_export};

REGISTER_FORMAT(.name = "minimalloc",
                .description = "lifetimes of objects, for solvers of storage allocation (convert/formats/minimalloc.c)",
                .suffix = ".minimalloc.csv", .export = &export_format);
