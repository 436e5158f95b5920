/* SPDX-License-Identifier: MIT */
#include "capture/recorder/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(struct control) <= CONTROL_BYTES, "the control page is one of the smallest OS pages");

static struct user_page *make_page(uint32_t user) {
  void *shared;
  int fd = shared_memory_open("heaptape-control", CONTROL_BYTES, &shared);
  if (fd < 0)
    return NULL;
  char *both = mmap(NULL, 2 * os_page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (both == MAP_FAILED || mremap(shared, CONTROL_BYTES, CONTROL_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
                                   both + os_page_bytes()) == MAP_FAILED) {
    os_close(fd);
    return NULL;
  }
  struct user_page *page = (struct user_page *)both;
  *page = (struct user_page){.user = user, .fd = fd, .control = (struct control *)(both + os_page_bytes())};
  return page;
}

/* The kernel marks this word when the collector's thread ends, however it ends. Hosts read it instead of checking the
   process id, which may be another process's in another name space. */
static void add_robust_futex(struct collector *collector, struct user_page *page) {
  atomic_store(&page->control->collector_futex, (uint32_t)os_thread_id());
  page->entry.next = collector->robust.list.next;
  atomic_signal_fence(memory_order_seq_cst);
  collector->robust.list.next = &page->entry;
}

struct user_page *collector_page(struct collector *collector, uint32_t user) {
  for (size_t i = 0; i < collector->pages.count; i++)
    if (collector->pages.at[i]->user == user)
      return collector->pages.at[i];
  errno = ENOSPC;
  bool has_room = collector->pages.count < USERS_MOST && vector_reserve(&collector->pages, collector->pages.count + 1);
  struct user_page *page = has_room ? make_page(user) : NULL;
  if (!page)
    return NULL;
  collector->pages.at[collector->pages.count++] = page;
  collector->control = collector->pages.at[0]->control;
  atomic_store(&page->control->asked, (uint32_t)collector->attached.count);
  add_robust_futex(collector, page);
  return page;
}

void collector_free_pages(struct collector *collector) {
  collector->robust.list.next = &collector->robust.list;
  for (size_t i = 0; i < collector->pages.count; i++) {
    close(collector->pages.at[i]->fd);
    munmap(collector->pages.at[i], 2 * os_page_bytes());
  }
  free(collector->pages.at);
}

void collector_advance_ticks(struct collector *collector) {
  for (size_t i = 0; i < collector->pages.count; i++)
    control_advance_tick(collector->pages.at[i]->control);
}

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
