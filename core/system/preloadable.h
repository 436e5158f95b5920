/* SPDX-License-Identifier: MIT */
/* Paths as LD_PRELOAD takes them: it ends each at a space or a colon. */
#pragma once

#include "core/base/error.h"

/* Replaces the path of a library, or of a folder of libraries, if LD_PRELOAD would split it, by that of a link to it
   with the same base name, in a folder of this user in /tmp; the link remains for processes that outlive the caller.
   path has room for PATH_MAX. Returns 0, or -1 with error. */
int preloadable_path(char *path, struct error *error);
