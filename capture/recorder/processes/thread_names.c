/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/thread_names.h"

#include "core/system/process.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_WAIT_NS = 1000000 };
#define LAST_WAIT_NS 10000000000u

bool thread_name_look(struct thread_name *name, int pid, uint32_t tid, uint64_t now_ns) {
  if (now_ns < name->due_ns)
    return false;
  name->wait_ns = name->wait_ns ? 2 * name->wait_ns : FIRST_WAIT_NS;
  if (name->wait_ns > LAST_WAIT_NS)
    name->wait_ns = LAST_WAIT_NS;
  name->due_ns = now_ns + name->wait_ns;
  char file[32], text[sizeof name->text];
  snprintf(file, sizeof file, "task/%u/comm", tid);
  if (!proc_read_file(pid, file, text, sizeof text))
    return false;
  text[strcspn(text, "\n")] = '\0';
  if (strcmp(text, name->text) == 0)
    return false;
  memcpy(name->text, text, sizeof text);
  return true;
}
