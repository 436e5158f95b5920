/* SPDX-License-Identifier: MIT */
/* Settings from the environment, before libc may know it. Allocates nothing. */
#pragma once

/* The value of a variable, valid for ever; NULL: it is not set, or the program is set-user-ID. Called at the start
   only, before any other thread can run here. */
const char *environment_value(const char *name);
