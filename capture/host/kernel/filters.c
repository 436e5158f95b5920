/* SPDX-License-Identifier: MIT */
#include "capture/host/kernel/filters.h"

#include "capture/host/real/real.h"
#include "capture/host/setting.h"
#include "capture/wire/ring.h"
#include "core/system/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(purpose, need, number, words, ...) {purpose, {SECCOMP_##need, number, NULL, {__VA_ARGS__}}},
static const struct {
  uint32_t purpose;
  struct seccomp_call call;
} calls[] = {
#include "capture/wire/seccomp_calls.def"
};

_Atomic uint32_t filters_forbid = FILTERS_UNKNOWN;
const _Atomic uint32_t *filters_seen;
__thread const volatile char *filters_dispatch;

/* --- a fresh image --- */

/* The value of a line "KEY: NUMBER"; UINT32_MAX: it is another line. */
static uint32_t value_of(const char *line, const char *key) {
  size_t length = strlen(key);
  if (strncmp(line, key, length) != 0)
    return UINT32_MAX;
  uint32_t number = 0;
  for (const char *at = line + length; *at; at++)
    if (*at >= '0' && *at <= '9')
      number = number * 10 + (uint32_t)(*at - '0');
  return number;
}

/* Opened, and read in parts of the size, as the loader does with libraries. */
long filters_count(void) {
  enum { LOADERS_BYTES = 832 };
  static const char path[] = "/proc/self/status";
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  char buffer[LOADERS_BYTES], line[32];
  size_t used = 0;
  uint32_t mode = UINT32_MAX, filters = UINT32_MAX;
  long got;
  while ((got = syscall(SYS_read, fd, buffer, sizeof buffer)) > 0)
    for (long i = 0; i < got; i++) {
      if (buffer[i] != '\n') {
        if (used < sizeof line - 1)
          line[used++] = buffer[i];
        continue;
      }
      line[used] = '\0';
      used = 0;
      uint32_t value = value_of(line, "Seccomp:");
      mode = value == UINT32_MAX ? mode : value;
      value = value_of(line, "Seccomp_filters:");
      filters = value == UINT32_MAX ? filters : value;
    }
  syscall(SYS_close, fd);
  if (mode == UINT32_MAX) /* cut off, or a kernel without seccomp, where there is nothing to fear */
    return got < 0 ? -1 : 0;
  return filters != UINT32_MAX ? filters : mode != SECCOMP_MODE_DISABLED;
}

/* May the image not attach? */
static bool examine(void) {
  if (redirected_table()) /* the recorder has read the filters */
    return false;
  int error = errno;
  bool exclude = true;
  if (setting_read(false)) {
    struct setting_filters known = setting_filters();
    long filters = filters_count();
    if (filters < 0) /* in another root, without /proc: no program on the way here has set one */
      exclude = known.since != 0;
    else
      exclude = filters != 0 && (known.since == ATTACH_FILTERS_FORBID || filters != known.recorders + known.since);
  }
  errno = error;
  return exclude;
}

bool filters_exclude(void) {
  if (atomic_load_explicit(&filters_forbid, memory_order_relaxed) & FILTERS_UNKNOWN) {
    if (examine())
      atomic_fetch_or(&filters_forbid, FILTERS_EXCLUDE);
    atomic_fetch_and(&filters_forbid, ~(uint32_t)FILTERS_UNKNOWN);
  }
  return filters_have_excluded();
}

/* --- another sandbox --- */

static _Atomic bool refused;

void filters_note_refusal(void) {
  struct setting_filters known = setting_filters();
  known.since = ATTACH_FILTERS_FORBID;
  atomic_store(&refused, true);
  atomic_fetch_or(&filters_forbid, HOST_CONTACT);
  setting_set_filters(known);
}

enum exec_outlook filters_outlook(void) {
  const _Atomic uint32_t *seen = filters_seen;
  if (atomic_load(&refused))
    return EXEC_SANDBOXED;
  bool filtered = setting_filters().since == ATTACH_FILTERS_FORBID || atomic_load(&filters_forbid) >= FILTERS_SETTING ||
                  (seen && atomic_load(seen));
  return filtered ? EXEC_FILTERED : EXEC_OPEN;
}

/* --- setting a filter --- */

void filters_begin(void) {
  atomic_fetch_add(&filters_forbid, FILTERS_SETTING);
}

static void note_forbidden(const struct sock_fprog *filter) {
  uint32_t found = filter ? 0 : HOST_ALL;
  for (size_t i = 0; filter && i < sizeof calls / sizeof *calls; i++)
    if (calls[i].call.need != SECCOMP_ELSEWHERE &&
        !seccomp_permits(seccomp_evaluate(filter, &calls[i].call), &calls[i].call))
      found |= calls[i].purpose;
  atomic_fetch_or(&filters_forbid, found);
  struct setting_filters known = setting_filters();
  known.since = found || known.since >= ATTACH_FILTERS_MOST ? ATTACH_FILTERS_FORBID : known.since + 1;
  setting_set_filters(known);
}

void filters_end(bool set, const struct sock_fprog *filter) {
  if (set)
    note_forbidden(filter);
  atomic_fetch_sub(&filters_forbid, FILTERS_SETTING);
}
