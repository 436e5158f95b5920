/* SPDX-License-Identifier: MIT */
#include "core/workload/witness.h"

#include <inttypes.h>

bool witness_ok(const struct witness *witness) {
  /* A trace cut before its first event proves nothing. It had an event: an empty recording is never truncated. */
  if (witness->truncated && witness->events == 0)
    return false;
  /* Events that are known to be missing can explain every contradiction. */
  if (witness->dropped || witness->truncated || witness->lacks_calls)
    return true;
  if (witness->double_frees > (witness->lacks_in_flight ? witness->threads : 0) ||
      witness->overlapping_acquires > witness->in_flight)
    return false;
  if (witness->overlapping_ranges && witness->ranges_ordered)
    return false;
  return witness->lacks_start || (witness->unseen_frees == 0 && witness->unseen_touches == 0);
}

json_t *witness_json(const struct witness *witness) {
  json_t *object = json_object();
  const struct {
    const char *key;
    uint64_t value;
  } counts[] = {
      {"events", witness->events},
      {"ops", witness->ops},
      {"unseen_frees", witness->unseen_frees},
      {"double_frees", witness->double_frees},
      {"unseen_touches", witness->unseen_touches},
      {"overlapping_acquires", witness->overlapping_acquires},
      {"inversions_repaired", witness->inversions_repaired},
      {"max_inversion_depth", witness->max_inversion_depth},
      {"failed_calls", witness->failed_calls},
      {"live_at_end", witness->live_at_end},
      {"live_bytes_at_end", witness->live_bytes_at_end},
      {"peak_live_bytes", witness->peak_live_bytes},
      {"peak_live_os_page_bytes", witness->peak_live_os_page_bytes},
      {"peak_live_objects", witness->peak_live_objects},
      {"threads", witness->threads},
      {"dropped", witness->dropped},
  };
  json_object_set_new(object, "ok", json_boolean(witness_ok(witness)));
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    json_object_set_new(object, counts[i].key, json_integer((json_int_t)counts[i].value));
  if (witness->ranges_checked)
    json_object_set_new(object, "overlapping_ranges", json_integer((json_int_t)witness->overlapping_ranges));
  json_object_set_new(object, "truncated", json_boolean(witness->truncated));
  json_object_set_new(object, "lacks_start", json_boolean(witness->lacks_start));
  json_object_set_new(object, "lacks_calls", json_boolean(witness->lacks_calls));
  return object;
}

static void print_count(FILE *out, uint64_t count, const char *what) {
  if (count)
    fprintf(out, "  %" PRIu64 " %s\n", count, what);
}

void witness_print(const struct witness *witness, FILE *out) {
  uint64_t wrong =
      witness->unseen_frees + witness->double_frees + witness->unseen_touches + witness->overlapping_acquires;
  const char *verdict = !witness_ok(witness) ? "NOT a legal history"
                        : wrong              ? "legal except for what the trace reports missing"
                                             : "a legal history";
  fprintf(out, "%s: %" PRIu64 " events of %" PRIu32 " threads, %" PRIu64 " objects live at the end\n", verdict,
          witness->events, witness->threads, witness->live_at_end);
  fprintf(out, "  peak %" PRIu64 " live bytes, %" PRIu64 " live objects\n", witness->peak_live_bytes,
          witness->peak_live_objects);
  print_count(out, witness->unseen_frees, "frees of objects never seen");
  print_count(out, witness->double_frees, "double frees");
  print_count(out, witness->unseen_touches, "other calls on objects that were not live");
  print_count(out, witness->overlapping_acquires, "objects handed out at an address where another lived");
  print_count(out, witness->overlapping_ranges, "objects handed out inside the bytes of another");
  print_count(out, witness->inversions_repaired, "steps recorded in the wrong order, corrected");
  print_count(out, witness->max_inversion_depth, "steps moved before one of them, at most");
  print_count(out, witness->failed_calls, "failed calls");
  print_count(out, witness->dropped, "events dropped by the recorder");
  if (witness->truncated)
    fprintf(out, witness->events ? "  the file is truncated\n"
                                 : "  the file is truncated before its first event: there is nothing to prove\n");
  if (witness->lacks_start)
    fprintf(out, "  the recording began after the program did\n");
  if (witness->lacks_calls)
    fprintf(out, "  the recorder did not see all calls\n");
}
