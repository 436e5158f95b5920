/* SPDX-License-Identifier: MIT */
#include "capture/host/setting.h"

#include "capture/host/real/real.h"
#include "capture/wire/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* environ is not set up yet where ld.so calls malloc, or our constructor, before libc's start, and a program may later
   have changed it; /proc may be absent in a container, or unreadable. So environ (or the constructor's argument) is
   read first, then /proc. */
static char setting[128];
static char **given_environ;
static char *place; /* of its value in the environment that the kernel made; NULL: not known */

static const char key[] = HEAPTAPE_ENV "=";

static char *find(char **environment) {
  for (char **entry = environment; entry && *entry; entry++)
    if (strncmp(*entry, key, sizeof key - 1) == 0)
      return *entry + sizeof key - 1;
  return NULL;
}

void setting_note_environment(char **environment) {
  given_environ = environment;
  if (!place)
    place = find(environ ? environ : given_environ);
}

static void read_environment_file(void) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/environ", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  size_t matched = 0, taken = 0;
  bool matching = true;
  char buffer[4096];
  for (;;) {
    long got = syscall(SYS_read, fd, buffer, sizeof buffer);
    if (got <= 0)
      break;
    for (long i = 0; i < got; i++) {
      char byte = buffer[i];
      if (matched == sizeof key - 1) {
        if (!byte || taken == sizeof setting - 1)
          goto done;
        setting[taken++] = byte;
      } else if (!byte) {
        matched = 0;
        matching = true;
      } else if (matching) {
        matching = byte == key[matched];
        matched = matching ? matched + 1 : 0;
      }
    }
  }
done:
  syscall(SYS_close, fd);
}

bool setting_read(bool again) {
  if (redirected_table()) {
    memcpy(setting, redirected_table()->setting, sizeof setting - 1);
  } else if (!setting[0] || again) {
    char **known = environ ? environ : given_environ, *value = find(known);
    if (value) {
      strncpy(setting, value, sizeof setting - 1);
      place = value;
    } else if (!known) {
      read_environment_file();
    }
  }
  return setting[0] != '\0';
}

bool setting_has(char mark) {
  return strchr(setting, mark) != NULL;
}

/* The value of hexadecimal digits up to the first other character, at which *text is then. */
static uint64_t hexadecimal(const char **text) {
  uint64_t number = 0;
  for (;; ++*text) {
    unsigned value = **text >= 'a' ? (unsigned)(**text - 'a') + 10 : (unsigned)(**text - '0');
    if (value > 15)
      return number;
    number = number << 4 | value;
  }
}

bool setting_parse(struct sockaddr_un *address, socklen_t *address_bytes, uint64_t *secret) {
  const char *colon = strchr(setting, ':');
  if (!colon || colon == setting || (size_t)(colon - setting) >= sizeof address->sun_path - 1)
    return false;
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  memcpy(address->sun_path + 1, setting, (size_t)(colon - setting));
  *address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)(colon - setting));
  const char *digit = colon + 1;
  *secret = hexadecimal(&digit);
  return *digit == '\0' || strchr(ATTACH_FILTERS ATTACH_IMPATIENT ATTACH_SIMULATED, *digit);
}

static char *filters_mark(void) {
  char *mark = strchr(setting, ATTACH_FILTERS[0]);
  return mark && strnlen(mark, 1 + ATTACH_FILTERS_DIGITS) == 1 + ATTACH_FILTERS_DIGITS ? mark + 1 : NULL;
}

struct setting_filters setting_filters(void) {
  const char *mark = filters_mark();
  uint64_t both = mark ? hexadecimal(&mark) : ATTACH_FILTERS_FORBID;
  return (struct setting_filters){(uint8_t)(both >> 8), (uint8_t)both};
}

void setting_set_filters(struct setting_filters filters) {
  char *mark = filters_mark();
  if (!mark)
    return;
  bool same = place && strcmp(place, setting) == 0;
  unsigned both = (unsigned)filters.recorders << 8 | filters.since;
  for (int digit = ATTACH_FILTERS_DIGITS; digit-- > 0; both >>= 4)
    mark[digit] = "0123456789abcdef"[both & 15];
  if (same)
    memcpy(place + (mark - setting), mark, ATTACH_FILTERS_DIGITS);
}

bool setting_make_path(struct sockaddr_un *address, socklen_t bytes) {
  static const char folder[] = ATTACH_FOLDER;
  size_t name_bytes = bytes - offsetof(struct sockaddr_un, sun_path) - 1;
  if (sizeof folder + name_bytes > sizeof address->sun_path)
    return false;
  memmove(address->sun_path + sizeof folder - 1, address->sun_path + 1, name_bytes);
  memcpy(address->sun_path, folder, sizeof folder - 1);
  address->sun_path[sizeof folder - 1 + name_bytes] = '\0';
  return true;
}

static bool came_by_path;

void setting_note_path(void) {
  came_by_path = true;
}

bool setting_is_cut_off(void) {
  struct sockaddr_un address;
  socklen_t bytes;
  uint64_t secret;
  if (!came_by_path || !setting_parse(&address, &bytes, &secret) || !setting_make_path(&address, bytes))
    return false;
  int error = errno;
  long fd = syscall(SYS_openat, AT_FDCWD, address.sun_path, O_PATH | O_CLOEXEC, 0);
  if (fd >= 0)
    syscall(SYS_close, fd);
  errno = error;
  return fd < 0;
}
