/* SPDX-License-Identifier: MIT */
/* The hooks' addresses: jumped to from a function's entry, by a stub that has put the address of its struct
   linked_function where enum linked_hook says. Async-signal-safe. */
#pragma once

#include "capture/wire/linked.h"

void linked_list_hooks(uint64_t hook[LINKED_HOOKS]);
