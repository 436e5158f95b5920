/* SPDX-License-Identifier: MIT */
/* Requests of memory that fail where a test says: the linker leads all of our libraries' to here (NO_MEMORY in
   core/part.mk). Included by one file of a test, which defines fails. */
#pragma once

#include "core/test/usual.h"

/* Does this request fail? Called once for each. */
static bool fails(void);

void *__real_malloc(size_t bytes), *__real_calloc(size_t count, size_t bytes), *__real_realloc(void *old, size_t bytes);
void *__real_reallocarray(void *old, size_t count, size_t bytes),
    *__wrap_reallocarray(void *old, size_t count, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes), *__wrap_calloc(size_t count, size_t bytes), *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes) {
  return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
  return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes) {
  return fails() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_reallocarray(void *old, size_t count, size_t bytes) {
  return fails() ? NULL : __real_reallocarray(old, count, bytes);
}

char *__wrap_strdup(const char *text) {
  return fails() ? NULL : __real_strdup(text);
}
