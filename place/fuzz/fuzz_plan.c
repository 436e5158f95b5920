/* SPDX-License-Identifier: MIT */
/* libFuzzer target: a placement plan. Checks that a refused plan has one line that says why and where, and that an
   accepted one keeps the invariants that the library relies on. */
#include "place/plan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define HOLDS(claim) ((claim) ? (void)0 : __builtin_trap())

static void check_accepted(const struct plan *plan) {
  HOLDS(plan->site_count > 0 && plan->site_count <= PLAN_SITES);
  HOLDS(plan->frame_count <= PLAN_FRAMES && plan->module_count <= PLAN_MODULES);
  HOLDS(memchr(plan->program, '\0', sizeof plan->program));
  uint32_t frames = 0;
  for (uint32_t i = 0; i < plan->site_count; i++) {
    const struct plan_site *site = &plan->sites[i];
    HOLDS(site->region > 0 && site->region <= PLAN_REGIONS);
    HOLDS(site->frames > 0 && site->frames <= PLAN_DEPTH && site->first_frame == frames);
    frames += site->frames;
  }
  HOLDS(frames == plan->frame_count);
  for (uint32_t i = 0; i < plan->frame_count; i++)
    HOLDS(plan->frames[i].module < plan->module_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  struct plan *plan = calloc(1, sizeof *plan);
  struct plan_error error;
  if (!plan)
    return 0;
  uint32_t lines = 1;
  for (size_t i = 0; i < count; i++)
    lines += bytes[i] == '\n';
  if (plan_parse(plan, (const char *)bytes, count, &error) == 0)
    check_accepted(plan);
  else
    HOLDS(error.what && *error.what && !strchr(error.what, '\n') && error.line > 0 && error.line <= lines);
  free(plan);
  return 0;
}
