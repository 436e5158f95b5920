#include "replay/memory/proc_status.h"

#include <string.h>
#include <unistd.h>

/* The number after "NAME:", which is in KiB; 0 if there is none. */
static uint64_t field_bytes(const char *text, const char *name) {
  const char *at = strstr(text, name);
  if (!at)
    return 0;
  uint64_t kib = 0;
  for (at += strlen(name); *at == ' ' || *at == '\t'; at++)
    ;
  for (; *at >= '0' && *at <= '9'; at++)
    kib = kib * 10 + (uint64_t)(*at - '0');
  return kib << 10;
}

int proc_status_read(int fd, struct proc_status *status) {
  char text[4096];
  ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
  if (bytes <= 0)
    return -1;
  text[bytes] = '\0';
  *status = (struct proc_status){.rss_anon_bytes = field_bytes(text, "\nRssAnon:"),
                                 .vm_size_bytes = field_bytes(text, "\nVmSize:"),
                                 .vm_hwm_bytes = field_bytes(text, "\nVmHWM:")};
  return 0;
}
