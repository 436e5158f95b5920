/* SPDX-License-Identifier: MIT */
/* A static program: no library can be loaded into it, so that it is recorded under Valgrind, by the places of its
   allocator's functions. */
#pragma once

#include "capture/recorder/command/options.h"
#include "capture/wire/linked.h"
#include "core/base/error.h"

/* As in struct linked_way (capture/recorder/ways.h). */
int prepare_static(struct command *command, const char *program, struct linked_list *functions, struct error *error);
