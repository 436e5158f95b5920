/* SPDX-License-Identifier: MIT */
#include "capture/sampling/perf_pmu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 256 };

/* The first line of root/pmu/file. False, with errno: it can't be read. */
static bool read_line(const char *root, const char *pmu, const char *file, char text[TEXT_BYTES]) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s/%s", root, pmu, file);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, TEXT_BYTES - 1);
  int why = errno;
  if (fd >= 0)
    close(fd);
  errno = why;
  text[got > 0 ? got : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return got > 0;
}

/* Reads a range of bits, as "0-7" or "19". False: it is not one. */
static bool read_bits(const char **at, unsigned *low, unsigned *high) {
  char *end;
  unsigned long first = strtoul(*at, &end, 10), last = first;
  bool number = **at >= '0' && **at <= '9';
  if (number && *end == '-') {
    const char *second = end + 1;
    number = *second >= '0' && *second <= '9';
    last = strtoul(second, &end, 10);
  }
  *at = end;
  *low = (unsigned)first;
  *high = (unsigned)last;
  return number && first <= last && last <= 63;
}

/* Puts the lowest bits of value where a format says, as "config:0-7,32-35" or "config1:19". False: it is not a
   format. */
static bool place_bits(const char *format, uint64_t value, uint64_t config[3]) {
  static const char *const words[] = {"config:", "config1:", "config2:"};
  unsigned word = 0, low, high;
  while (word < 3 && strncmp(format, words[word], strlen(words[word])) != 0)
    word++;
  if (word == 3)
    return false;
  const char *at = format + strlen(words[word]);
  while (read_bits(&at, &low, &high)) {
    unsigned bits = high - low + 1;
    config[word] |= (value & (UINT64_MAX >> (64 - bits))) << low;
    value = bits < 64 ? value >> bits : 0;
    if (*at++ != ',')
      return at[-1] == '\0';
  }
  return false;
}

/* Takes a term of an event, as "umask=0x1" or "edge". */
static bool place_term(const char *root, const char *pmu, char *term, uint64_t config[3]) {
  char file[TEXT_BYTES + 8], format[TEXT_BYTES];
  char *equals = strchr(term, '=');
  if (equals)
    *equals = '\0';
  snprintf(file, sizeof file, "format/%s", term);
  return *term && read_line(root, pmu, file, format) &&
         place_bits(format, equals ? strtoull(equals + 1, NULL, 0) : 1, config);
}

/* Adds the event with those terms ("event=0xcd,umask=0x1"); a later term may overwrite an earlier one. */
static bool add_event(struct perf_event_choices *choices, const char *root, const char *pmu, const char *terms,
                      const struct perf_event_choice *about) {
  char type[TEXT_BYTES], copy[TEXT_BYTES], *rest = copy;
  struct perf_event_choice *event = &choices->events[choices->count];
  *event = *about;
  snprintf(copy, sizeof copy, "%s", terms);
  if (!read_line(root, pmu, "type", type))
    return false;
  event->type = (uint32_t)strtoul(type, NULL, 10);
  for (char *term; (term = strsep(&rest, ","));)
    if (!place_term(root, pmu, term, event->config)) {
      errno = EINVAL;
      return false;
    }
  choices->count++;
  return true;
}

/* An event that the kernel lists in events/, without its term ldlat, which is ours to set. */
static bool add_listed(struct perf_event_choices *choices, const char *root, const char *listed,
                       const struct perf_event_choice *about) {
  char file[TEXT_BYTES], terms[TEXT_BYTES], wanted[TEXT_BYTES + 24];
  snprintf(file, sizeof file, "events/%s", listed);
  if (!read_line(root, "cpu", file, terms))
    return false;
  char *latency = strstr(terms, ",ldlat=");
  if (latency) {
    const char *after = latency + 1 + strcspn(latency + 1, ",");
    memmove(latency, after, strlen(after) + 1);
    snprintf(wanted, sizeof wanted, "%s,ldlat=%d", terms, SAMPLED_LOAD_LATENCY_CYCLES);
  } else {
    snprintf(wanted, sizeof wanted, "%s", terms);
  }
  return add_event(choices, root, "cpu", wanted, about);
}

/* PEBS: loads by latency, which some processors sample only behind a special event, and stores. */
static bool choose_pebs(struct perf_event_choices *choices, const char *root) {
  struct perf_event_choice before = {.name = "cpu/mem-loads-aux/"}; /* only counted: it has no PEBS */
  struct perf_event_choice loads = {.precise = 2, .period_factor = 1, .samples = true};
  struct perf_event_choice stores = {
      .name = "cpu/mem-stores/", .precise = 2, .period_factor = SAMPLED_STORES_FACTOR, .samples = true};
  snprintf(loads.name, sizeof loads.name, "cpu/mem-loads,ldlat=%d/", SAMPLED_LOAD_LATENCY_CYCLES);
  if (!add_listed(choices, root, "mem-loads-aux", &before) && errno != ENOENT)
    return false;
  return add_listed(choices, root, "mem-loads", &loads) &&
         (add_listed(choices, root, "mem-stores", &stores) || errno == ENOENT);
}

/* IBS samples every Nth micro-operation, including those without an address. */
static bool choose_ibs(struct perf_event_choices *choices, const char *root) {
  const struct perf_event_choice operations = {
      .name = "ibs_op/cnt_ctl=1/", .period_factor = SAMPLED_OPERATIONS_FACTOR, .samples = true};
  return add_event(choices, root, "ibs_op", "cnt_ctl=1", &operations);
}

int perf_pmu_choose(struct perf_event_choices *choices, const char *root, enum sampling_kind kind,
                    struct error *error) {
  *choices = (struct perf_event_choices){.detail = kind == SAMPLING_MEMORY};
  if (kind == SAMPLING_PAGE_FAULTS) {
    choices->events[choices->count++] = (struct perf_event_choice){.name = "page-faults",
                                                                   .type = PERF_TYPE_SOFTWARE,
                                                                   .config = {PERF_COUNT_SW_PAGE_FAULTS},
                                                                   .period_factor = 1,
                                                                   .samples = true};
    return 0;
  }
  if (choose_pebs(choices, root))
    return 0;
  int pebs = errno;
  choices->count = 0;
  if (choose_ibs(choices, root))
    return 0;
  int ibs = errno;
  return error_set(error, "--accesses=sampled",
                   "no event of this processor samples data addresses: %s/cpu/events/mem-loads: %s; %s/ibs_op: %s",
                   root, strerror(pebs), root, strerror(ibs));
}
