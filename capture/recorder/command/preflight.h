/* SPDX-License-Identifier: MIT */
/* Can the program be recorded at all? Starts and changes nothing, allocates nothing */
#pragma once

#include "capture/recorder/command/options.h"
#include "core/base/error.h"

/* Finds command as execvp would (path is filled in) and checks it: an ELF program of this machine, without rights that
   make the loader ignore LD_PRELOAD; or a script whose interpreter is one. static_program: that program, if it names no
   dynamic loader; else "". Both are PATH_MAX bytes. Returns 0; 127 not found, 126 not executable, 1 cannot be recorded;
   error has the reason. */
int preflight_program(const char *command, char *path, char *static_program, struct error *error);

/* Does the file contain the text? */
bool preflight_file_holds(const char *path, const char *text);

/* Finds one of our libraries relative to the running program: ../lib or ../../lib/heaptape. path is PATH_MAX bytes.
   Returns 0, or 1 with error. */
int preflight_library(const char *name, char *path, struct error *error);

/* Can libunwind be loaded? 0, or 1 with error. */
int preflight_libunwind(struct error *error);

/* Finds a library, by its path or as the dynamic linker finds its name; path, of PATH_MAX bytes, is one that can be in
   LD_PRELOAD (core/system/preloadable.h). 0, or 1 with error. */
int preflight_preload(const char *library, char *path, struct error *error);

/* Can the library be loaded into the program? A library that was linked against glibc can't be loaded into a musl
   program: musl's loader would end the program. (libheaptape.so itself is made for both.) 0, or 1 with error; a script
   counts as a glibc program. */
int preflight_same_libc(const char *program, const char *library, struct error *error);
