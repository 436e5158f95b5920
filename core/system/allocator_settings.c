/* SPDX-License-Identifier: MIT */
#include "core/system/allocator_settings.h"

#include <stdio.h>
#include <string.h>

static const char TUNABLES[] = "GLIBC_TUNABLES";

const char *const allocator_variables[] = {TUNABLES,
                                           "MALLOC_*",
                                           "MALLOCSTATS",
                                           "*MALLOC_CONF",
                                           "JEMALLOC_*",
                                           "MIMALLOC_*",
                                           "TCMALLOC_*",
                                           "HEAPPROFILE",
                                           "HEAPCHECK",
                                           "TBB_MALLOC_*",
                                           "RPMALLOC_*",
                                           "SNMALLOC_*",
                                           "HOARD_*",
                                           "SCUDO_OPTIONS",
                                           "GWP_ASAN_OPTIONS",
                                           "HUGETLB_MORECORE*",
                                           "HEAPTAPE_PLACE",
                                           "REFERENCE_TUNABLES",
                                           "BUCKET_TUNABLES",
                                           "MTEXCLUSIVE",
                                           "MTMAXCACHE",
                                           "MAGAZINE_TUNABLES",
                                           NULL};

const struct jemalloc_setting jemalloc_settings[JEMALLOC_SETTINGS] = {
    {"malloc_conf", "/etc/malloc.conf", "MALLOC_CONF"},
    {"je_malloc_conf", "/etc/je_malloc.conf", "JE_MALLOC_CONF"},
    {"_rjem_malloc_conf", "/etc/_rjem_malloc.conf", "_RJEM_MALLOC_CONF"}};

static bool matches(const char *pattern, const char *name, size_t length) {
  size_t wanted = strlen(pattern);
  bool begins = wanted > 0 && pattern[wanted - 1] == '*', ends = *pattern == '*';
  wanted -= begins || ends;
  pattern += ends;
  if (!begins && !ends)
    return length == wanted && memcmp(name, pattern, wanted) == 0;
  return length >= wanted && memcmp(ends ? name + length - wanted : name, pattern, wanted) == 0;
}

static size_t tunables_of_malloc(const char *value, char *setting, size_t bytes) {
  static const char OF_MALLOC[] = "glibc.malloc.";
  size_t used = (size_t)snprintf(setting, bytes, "%s=", TUNABLES), name = used;
  for (; *value; value += strspn(value, ":")) {
    size_t length = strcspn(value, ":");
    if (strncmp(value, OF_MALLOC, sizeof OF_MALLOC - 1) == 0)
      used += (size_t)snprintf(used < bytes ? setting + used : NULL, used < bytes ? bytes - used : 0, "%s%.*s",
                               used > name ? ":" : "", (int)length, value);
    value += length;
  }
  return used > name ? used : 0;
}

size_t allocator_setting(const char *variable, char *setting, size_t bytes) {
  size_t length = strcspn(variable, "=");
  const char *const *pattern = allocator_variables;
  while (*pattern && !matches(*pattern, variable, length))
    pattern++;
  if (!*pattern || !variable[length])
    return 0;
  return *pattern == TUNABLES ? tunables_of_malloc(variable + length + 1, setting, bytes)
                              : (size_t)snprintf(setting, bytes, "%s", variable);
}
