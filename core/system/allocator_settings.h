/* SPDX-License-Identifier: MIT */
/* Which variables of an environment set an allocator up, and what else does: the one list of them.

   Job: recognise them, and cut one to the part that is an allocator's. Not its job: LD_PRELOAD, which selects an
   allocator where one of its libraries has a malloc; what the settings mean. No state; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The names, with a * at the start or end for any text; ends with NULL. */
extern const char *const allocator_variables[];

/* Where jemalloc reads settings besides: a variable of the program's, then the name of a link of the system's, which
   the environment's add to. By the prefix that a jemalloc was built with. */
enum { JEMALLOC_SETTINGS = 3 };
extern const struct jemalloc_setting {
  const char *variable, *link, *environment;
} jemalloc_settings[JEMALLOC_SETTINGS];

/* The part of "NAME=VALUE" that sets an allocator: all of it, of GLIBC_TUNABLES only the tunables of malloc. Returns
   its length, as snprintf; 0: none. */
size_t allocator_setting(const char *variable, char *setting, size_t bytes);
