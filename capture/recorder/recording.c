/* SPDX-License-Identifier: MIT */
#include "capture/recorder/recording.h"

#include <sys/epoll.h>

struct recorded_process *collector_find(const struct collector *collector, int64_t pid) {
  for (uint32_t i = 0; i < collector->processes.count; i++)
    if (collector->processes.at[i]->pid == pid)
      return collector->processes.at[i];
  return NULL;
}

void collector_watch(const struct collector *collector, int fd) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLET};
  epoll_ctl(collector->epoll, EPOLL_CTL_ADD, fd, &event);
}
