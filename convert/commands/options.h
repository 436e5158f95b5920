/* SPDX-License-Identifier: MIT */
/* The parsed command line of heaptape-convert. */
#pragma once

#include "convert/formats/reading/import.h"
#include "convert/inspect/dump.h"
#include "convert/rewrite/slice_spec.h"
#include "convert/whatif/group.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Texts are the command line's own. */
struct options {
  const char *command, *in, *out, *from, *to, *format;
  char **inputs; /* of convert: all but the last argument */
  uint32_t input_count;
  enum dump_stacks stacks;
  bool help, json, ranges, list, has_thread, nodes, merge, anonymise, archive, list_accesses, has_end;
  const char *accesses;        /* of compile: the file to write; NULL: none */
  const char *origins;         /* the same */
  VECTOR(struct group) groups; /* of compile: --group */
  VECTOR(uint64_t) positions;  /* of compile: --position; rising */
  const char *keep;            /* of reduce: the file of objects that stay; NULL: all stay */
  VECTOR(uint32_t) joined;     /* of reduce: threads that become thread 0 */
  const char *plan;            /* of distil */
  uint64_t ops;                /* of windows; 0: not given */
  uint64_t from_byte;          /* of spans */
  uint32_t sites;              /* of spans; 0: none */
  uint64_t end;                /* of reduce, with has_end: position of the first op that is left out */
  struct slice_spec slice;
  json_t *slices; /* as given; NULL: none */
  uint64_t thread;
  double horizon_ns;
  struct import_options import;
};

struct options_error {
  char text[256];
};

/* Fills in options. Returns 0, or -1 with what is wrong in error. */
int options_parse(struct options *options, int argc, char **argv, struct options_error *error);
