/* SPDX-License-Identifier: MIT */
/* A placement plan (docs/use/PLACE.md): which call sites are served from which region.

   Job: parsing untrusted text. Allocates nothing, prints nothing. Invariants of a plan that was read: each site has a
   region of 1 .. PLAN_REGIONS and 1 .. PLAN_DEPTH frames. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
  PLAN_VERSION = 1,
  PLAN_REGIONS = 14, /* the library needs one region for itself */
  PLAN_DEPTH = 64,
  PLAN_SITES = 512,
  PLAN_FRAMES = 4096, /* of all sites */
  PLAN_MODULES = 64,
  PLAN_ID_BYTES = 64,
  PLAN_TEXT_BYTES = 1 << 20,
  PLAN_NAME_BYTES = 256,
};

struct plan_module {
  uint8_t build_id[PLAN_ID_BYTES];
  uint32_t id_bytes;
};

/* The instruction after a call. */
struct plan_frame {
  uint64_t offset; /* from where the module is loaded */
  uint32_t module;
};

/* frames: innermost first, of plan.frames. */
struct plan_site {
  uint32_t region, first_frame, frames;
};

struct plan {
  char program[PLAN_NAME_BYTES]; /* the recorded executable's file name; "": not known */
  struct plan_module modules[PLAN_MODULES];
  struct plan_frame frames[PLAN_FRAMES];
  struct plan_site sites[PLAN_SITES];
  uint32_t module_count, frame_count, site_count;
};

/* Fills in the plan, which must be zeros. Returns 0, or -1 with *what and *line (0: of no line) saying what is wrong.
 */
struct plan_error {
  const char *what;
  uint32_t line;
};
int plan_parse(struct plan *plan, const char *text, size_t bytes, struct plan_error *error);
