/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/process_end.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* linux/pidfd.h of 6.15 and later; Debian's headers are older. An older kernel fails the call or leaves the bit out. */
struct pid_info {
  uint64_t mask, cgroup;
  uint32_t pid, tgid, ppid, user_and_group_ids[8];
  int32_t exit_code;
};
enum { PID_INFO_EXIT = 1 << 3 };
#define PID_GET_INFO _IOWR(0xff, 11, struct pid_info)
_Static_assert(sizeof(struct pid_info) == 64, "the size is part of the call's number");

static void look_at_zombie(struct process_end *end, int stat_fd) {
  char text[2048];
  ssize_t got = pread(stat_fd, text, sizeof text - 1, 0);
  if (got <= 0)
    return;
  text[got] = '\0';
  /* After the name in parentheses, which may hold anything, come fields 3 and following; the last one, 52, is the
     status. */
  const char *after = strrchr(text, ')');
  unsigned long long minor, child_minor, major, child_major, user, system;
  char state;
  if (!after || sscanf(after + 1, " %c %*d %*d %*d %*d %*d %*u %llu %llu %llu %llu %llu %llu", &state, &minor,
                       &child_minor, &major, &child_major, &user, &system) != 7)
    return;
  if (state != 'Z' && state != 'X')
    return;
  uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
  end->usage_known = true;
  end->usage = (struct trace_final){
      .minor_faults = minor, .major_faults = major, .user_ns = user * tick_ns, .system_ns = system * tick_ns};
  end->reaped_children = child_minor || child_major;
  const char *last = strrchr(after, ' ');
  /* Zero also means that the reader may not know it. */
  end->status_known = last && sscanf(last, "%d", &end->status) == 1 && end->status != 0;
}

struct process_end process_end_look(int pid_fd, int stat_fd) {
  struct process_end end = {0};
  if (stat_fd >= 0)
    look_at_zombie(&end, stat_fd);
  struct pid_info info = {.mask = PID_INFO_EXIT};
  if (!end.status_known && pid_fd >= 0 && ioctl(pid_fd, PID_GET_INFO, &info) == 0 && (info.mask & PID_INFO_EXIT)) {
    end.status_known = true;
    end.status = info.exit_code;
  }
  return end;
}
