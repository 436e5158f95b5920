/* SPDX-License-Identifier: MIT */
/* Checks that a pointer is to an object that the program may have. */
#pragma once

#include "allocators/magazine/zone/zone.h"

/* Returns the object's zone; ends the process if no object begins there, or if it is free. where: the call, for the
   message. */
struct zone *check_object(const char *where, const void *object);
