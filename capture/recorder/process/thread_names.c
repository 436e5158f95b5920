#include "capture/recorder/process/thread_names.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_WAIT_NS = 1000000 };
#define LAST_WAIT_NS 10000000000u

bool thread_name_look(struct thread_name *name, int pid, uint32_t tid, uint64_t now_ns) {
  if (now_ns < name->due_ns)
    return false;
  name->wait_ns = name->wait_ns ? 2 * name->wait_ns : FIRST_WAIT_NS;
  if (name->wait_ns > LAST_WAIT_NS)
    name->wait_ns = LAST_WAIT_NS;
  name->due_ns = now_ns + name->wait_ns;
  char path[64], text[sizeof name->text];
  snprintf(path, sizeof path, "/proc/%d/task/%u/comm", pid, tid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  if (bytes <= 0)
    return false;
  text[bytes] = '\0';
  text[strcspn(text, "\n")] = '\0';
  if (strcmp(text, name->text) == 0)
    return false;
  memcpy(name->text, text, sizeof text);
  return true;
}
