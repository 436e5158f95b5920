/* SPDX-License-Identifier: MIT */
/* Settings from the environment, before libc may know it. Allocates nothing. */
#pragma once

/* Returns the value of a variable, valid forever; NULL: not set, or the program is set-user-ID. Call at the start only,
   before any other thread can run here. */
const char *environment_value(const char *name);
