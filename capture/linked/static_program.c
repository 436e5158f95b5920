/* SPDX-License-Identifier: MIT */
#include "capture/linked/static_program.h"

#include "capture/linked/linked_patches.h"
#include "capture/recorder/command/preflight.h"
#include "core/command/diagnostics.h"

#include <stdio.h>
#include <string.h>

static int refuse(struct error *error, const char *path, const char *why) {
  error_set(error, path, "%s", why);
  return 1;
}

/* The start of what `go version` reads, which strip keeps. */
static bool is_of_go(const char *program) {
  return preflight_file_holds(program, "\xff Go buildinf:");
}

static int check(const struct command *command, const char *program, struct linked_list *functions,
                 struct error *error) {
  const struct collector_settings *settings = &command->settings;
  const char *excluded = command->preload                                                       ? "--preload"
                         : settings->flags & ATTACH_ACCESSES                                    ? "--accesses"
                         : settings->flags & ATTACH_STACKS                                      ? "--stacks"
                         : settings->flags & ATTACH_LATENCY                                     ? "--latency"
                         : settings->flags & ATTACH_USABLE                                      ? "--usable"
                         : settings->flags & ATTACH_DROP                                        ? "--on-full drop"
                         : settings->budget > 0                                                 ? "--budget"
                         : settings->sample_ns                                                  ? "--sample-ms"
                         : command->own_mappings                                                ? "--own-mappings"
                         : settings->touch_min_bytes && settings->touch_min_bytes != UINT64_MAX ? "--touch-min"
                                                                                                : NULL;
  if (excluded) {
    error_set(error, program, "statically linked: it is recorded under Valgrind, where %s is not available", excluded);
    return 1;
  }
  if (linked_list_read(functions, program) != 0)
    return refuse(error, program, "cannot be read");
  if (functions->count == 0 && is_of_go(program))
    return refuse(
        error, program,
        "a Go program without malloc: Go's runtime has an allocator of its own, which can't be replaced; only "
        "the calls of C code in it, which cgo links dynamically, can be recorded");
  if (functions->count == 0)
    return refuse(error, program,
                  "statically linked, and stripped or without malloc: its allocator's functions are found by their "
                  "symbols; build it without strip (Rust: strip = false) or -s");
  return 0;
}

int prepare_static(struct command *command, const char *program, struct linked_list *functions, struct error *error) {
  struct collector_settings *settings = &command->settings;
  int status = check(command, program, functions, error);
  settings->flags |= ATTACH_STAMP_EVERY;
  settings->simulated = true;
  settings->touch_min_bytes = UINT64_MAX;
  if (status == 0 && !diagnostics.quiet)
    fprintf(stderr, "heaptape: %s is statically linked: recorded under Valgrind, about 10 times slower\n",
            basename(program));
  return status;
}
