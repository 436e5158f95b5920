/* SPDX-License-Identifier: MIT */
#include "replay/engine/proc_status.h"

#include "core/system/process.h"

int proc_status_read(int fd, struct proc_status *status) {
  char text[4096];
  if (!proc_read(fd, text, sizeof text))
    return -1;
  *status = (struct proc_status){.rss_anon_bytes = proc_status_number(text, "\nRssAnon:", 0) << 10,
                                 .vm_size_bytes = proc_status_number(text, "\nVmSize:", 0) << 10,
                                 .vm_hwm_bytes = proc_status_number(text, "\nVmHWM:", 0) << 10};
  return 0;
}
