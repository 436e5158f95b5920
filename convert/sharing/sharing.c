/* SPDX-License-Identifier: MIT */
/* The profile's `line_sharing`: which cache lines hold live objects of several threads, at the recorded addresses. */
#include "convert/history/trace_info.h"
#include "convert/profile/profile.h"
#include "core/sharing/line_sharing.h"

#include <stdlib.h>

struct sharing {
  struct line_sharing *lines;
  struct line_sharing_counts counts;
};

/* A single thread shares nothing, and made-up addresses say nothing. */
static bool lines_can_be_shared(const struct trace_summary *summary) {
  struct trace_info info;
  trace_info_read(&info, summary->info_json);
  bool can = summary->threads > 1 && !json_object_get(info.json, "anonymised") && !info.lacks_addresses;
  trace_info_free(&info);
  return can;
}

/* If threads share many lines, checking all objects costs more than the whole remaining profile. */
enum { SAMPLED_FROM = 16 << 20, SAMPLED_OS_PAGES = 16 };

static void *begin(const struct trace_summary *summary) {
  struct sharing *sharing = calloc(1, sizeof *sharing);
  if (sharing)
    sharing->lines =
        line_sharing_begin(&sharing->counts, summary->events, summary->events > SAMPLED_FROM ? SAMPLED_OS_PAGES : 1);
  if (sharing && sharing->lines)
    return sharing;
  free(sharing);
  return NULL;
}

/* A realloc releases the old address before the new one is handed out: other threads may get it meanwhile. */
static void move_begins(void *context, const struct merge_step *step, uint32_t slot) {
  struct sharing *sharing = context;
  line_sharing_remove(sharing->lines, slot, step->thread);
}

static int take_op(void *context, const struct history_op *op) {
  struct sharing *sharing = context;
  int status = 0;
  if (op->kind == HISTORY_RELEASE)
    line_sharing_remove(sharing->lines, op->slot, op->thread);
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    status = line_sharing_add(sharing->lines, op->slot, op->event->acquired, op->request_bytes, op->thread);
  line_sharing_after_op(sharing->lines);
  return status;
}

static void end(void *context, json_t *profile) {
  struct sharing *sharing = context;
  line_sharing_end(sharing->lines);
  if (profile)
    json_object_set_new(profile, "line_sharing", line_sharing_json(&sharing->counts));
  free(sharing);
}

static const struct profile_part part = {
    .says = lines_can_be_shared, .begin = begin, .op = take_op, .move_begins = move_begins, .end = end};
REGISTER_PROFILE_PART(part);
