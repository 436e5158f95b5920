/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any history as heaptape text, a slice of it, and the slice anonymised into an archive. For any
   history, both must be legal without repairs. The first three bytes choose the window and the kind of slice. */
#include "convert/foreign/format.h"
#include "convert/rewrite/rewrite.h"
#include "convert/rewrite/slice.h"
#include "core/workload/witness.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct file {
  int fd;
  char path[32];
};

static struct file new_file(void) {
  struct file file = {.fd = memfd_create("fuzz", 0)};
  snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
  return file;
}

/* Opens the file's trace, proves it legal if required, and makes the next trace from it. */
static bool make(const struct file *in, const struct file *out, struct slice_spec *spec, bool must_be_legal) {
  struct trace_reader *reader;
  struct error error = {0};
  struct witness witness;
  const struct history_options history = {.horizon_ns = -1};
  const struct trace_options archive = {.archive = true, .history = &history};
  if (trace_reader_open(&reader, in->path, &error) != 0)
    return false;
  int result = history_run(reader, &history, NULL, &witness, &error);
  if (must_be_legal && (result != 0 || !witness_ok(&witness) || witness.unseen_frees || witness.inversions_repaired))
    __builtin_trap();
  json_t *texts = json_array();
  if (spec)
    spec->texts = texts;
  if (result == 0 && spec)
    result = trace_slice(reader, out->path, spec, &archive, &error);
  else if (result == 0 && out)
    result = trace_anonymise(reader, out->path, &archive, &error);
  json_decref(texts);
  trace_reader_close(reader);
  return result == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  if (count < 3)
    return 0;
  struct file text = new_file(), tape = new_file(), slice = new_file(), anonymous = new_file();
  struct slice_spec spec = SLICE_EVERYTHING;
  struct error error = {0};
  spec.from_event = bytes[0];
  spec.to_event = (uint64_t)bytes[0] + bytes[1];
  spec.by_size = bytes[2] & 1;
  spec.to_size = bytes[2] & 1 ? bytes[2] : UINT64_MAX;
  if (write(text.fd, bytes + 3, count - 3) == (ssize_t)(count - 3) &&
      import_file(format_by_name("text")->import, text.path, &(struct import_options){0}, tape.path, &error) == 0 &&
      make(&tape, &slice, &spec, false) && make(&slice, &anonymous, NULL, true))
    make(&anonymous, NULL, NULL, true);
  close(text.fd);
  close(tape.fd);
  close(slice.fd);
  close(anonymous.fd);
  return 0;
}
