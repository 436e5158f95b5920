/* SPDX-License-Identifier: MIT */
/* Ways into a process besides LD_PRELOAD. Each is a feature: a folder of capture/ that is registered by being linked.
   Where it is not there, all else is recorded, and one line says what this build can't record. */
#pragma once

#include "capture/recorder/command/options.h"
#include "capture/wire/linked.h"
#include "core/base/error.h"
#include "core/base/registry.h"
#include "core/base/text.h"

#include <stdbool.h>
#include <sys/socket.h>

struct linked_result {
  struct linked_done done;
  bool has_malloc;            /* the functions of malloc itself are redirected */
  struct text_line complaint; /* what is not recorded and why; empty: nothing to report */
};

/* An allocator in the executable. */
struct linked_way {
  /* Redirects its functions in a process that begins. connection: the one by which the process asked; the process
     closes it when it no longer waits. Nothing is written where the process is no longer what it was when it connected
     (peer.h). */
  void (*redirect)(const struct ucred *from, int connection, const struct linked_place *place,
                   struct linked_result *result);

  /* Can a static program be recorded with these options, and what are the functions of its allocator? Changes the
     settings to those of a program under Valgrind. 0, or 1 with error. */
  int (*prepare_static)(struct command *command, const char *program, struct linked_list *functions,
                        struct error *error);
};

/* The restorer: a child of the recorder that redirects a process to be recorded, and puts everything back when the
   recorder ends, however it ends. It holds no descriptor of the collector, so that the recorded processes see the
   recorder's end, and ignores the signals of a terminal. */
struct restorer {
  int pid;               /* of the restorer */
  int line;              /* pipe to it: the collector's address, with which it begins; closing it ends the restorer */
  int target, target_fd; /* the process that is redirected, and its pidfd */
};

/* A process that runs already. */
struct attach_way {
  /* Can it be recorded? Looks at it from outside, and finds the library that it will load (PATH_MAX bytes). -1: no. */
  int (*prepare)(int pid, char *library, struct error *error);

  /* A Unix socket for SEQPACKET in the process's network namespace, non-blocking. -1: it can't be made. */
  int (*socket)(int pid);

  /* Called before the collector is opened. output_fd: the recorder's, whose lock ends with the recorder. */
  int (*start)(struct restorer *restorer, const char *library, int output_fd, struct error *error);

  /* Ends the restorer, and waits for its end. reaped_status: as waitpid gives it, where the collector has reaped it.
     Puts everything back in its place where that is still to be done, as when it was killed; where it has failed, it
     has said why. Returns whether it has succeeded. */
  bool (*end)(struct restorer *restorer, const char *setting, int reaped_status, bool recorded);
};

/* kind: linked, attach. */
#define REGISTER_WAY(kind, one) REGISTRY_ADD(kind##_ways, kind##_way, entry_of_##kind, &one)
REGISTRY(linked_ways, linked_way);
REGISTRY(attach_ways, attach_way);

/* NULL: the folder is not there. */
static inline const struct linked_way *linked_way(void) {
  return REGISTRY_ONLY(linked_ways);
}
static inline const struct attach_way *attach_way(void) {
  return REGISTRY_ONLY(attach_ways);
}
