/* SPDX-License-Identifier: MIT */
/* Checks, before anything is started, whether a program can be recorded at all.

   Invariants: starts and changes nothing. Allocates nothing. */
#pragma once

#include "core/base/error.h"

#include <stddef.h>

/* Finds command as execvp would (path is filled in) and checks it: an ELF program of this machine, with a dynamic
   loader, without rights that make the loader ignore LD_PRELOAD; or a script whose interpreter is one. Returns 0; 127
   not found, 126 not executable, 1 cannot be recorded; error has the reason. */
int preflight_program(const char *command, char *path, size_t path_bytes, struct error *error);

/* Finds one of our libraries relative to the running program: ../lib or ../../lib/heaptape. path is PATH_MAX bytes.
   Returns 0, or 1 with error. */
int preflight_library(const char *name, char *path, struct error *error);

/* Can libunwind be loaded? 0, or 1 with error. */
int preflight_libunwind(struct error *error);

/* Can path be in LD_PRELOAD? 0, or 1 with error. */
int preflight_preloadable(const char *path, struct error *error);

/* Can the library be loaded into the program? A library that was linked against glibc can't be loaded into a musl
   program: musl's loader would end the program. (libheaptape.so itself is made for both.) 0, or 1 with error; a script
   counts as a glibc program. */
int preflight_same_libc(const char *program, const char *library, struct error *error);
