/* SPDX-License-Identifier: MIT */
/* Which executables and libraries a process has mapped, and where: what the addresses of its call stacks mean.

   Job: read /proc/PID/maps, read build ids from the files, find what is new. Not its job: when to look
   (stack_nodes.h). In the recorder; allocates with malloc; one thread. */
#pragma once

#include "core/trace/summary.h"

#include <stdbool.h>
#include <stddef.h>

struct modules {
  struct module {
    struct trace_module record; /* texts are owned */
    uint64_t device, inode;
    bool is_new; /* in the last look */
    bool gone;   /* no longer mapped, and nothing in its place yet */
  } * at;        /* by address; vector.h */
  size_t count, room;
};

enum modules_change { MODULES_SAME, MODULES_MORE, MODULES_REPLACED };

/* Reads what is mapped now. MORE: there are new modules; REPLACED: a new one has addresses of another, which was
   unmapped since. SAME also where nothing can be read. */
enum modules_change modules_look(struct modules *modules, int pid);

/* Calls visit for each module that the last look found new. */
void modules_visit_new(const struct modules *modules, void (*visit)(void *context, const struct trace_module *module),
                       void *context);

/* Calls visit for each module that was mapped at the last look. */
void modules_visit_mapped(const struct modules *modules,
                          void (*visit)(void *context, const struct trace_module *module), void *context);

/* Is address in a module that was mapped at the last look? */
bool modules_have(const struct modules *modules, uint64_t address);

void modules_free(struct modules *modules);
