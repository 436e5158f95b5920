/* SPDX-License-Identifier: MIT */
#include "observe/observe.h"

#include "core/base/os.h"
#include "core/system/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char *const observed_call_names[OBSERVED_CALLS] = {"mmap", "munmap", "mremap", "madvise", "brk"};

/* First the OBSERVED_CALLS that are named; then those that begin and end an image, the only ones observed where only
   time is measured. */
static const int numbers[] = {SYS_mmap, SYS_munmap, SYS_mremap,   SYS_madvise,
                              SYS_brk,  SYS_execve, SYS_execveat, SYS_exit_group};
enum { CALLS = sizeof numbers / sizeof *numbers };
static const uint64_t EXEC_SETTLES_NS = 50000000;

int observe_install(int socket, bool memory) {
  unsigned first = memory ? 0 : OBSERVED_CALLS;
  return notify_install(socket, numbers + first, CALLS - first);
}

static void read_faults(struct observed *image) {
  struct proc_stat stat;
  if (proc_stat_read(image->stat_fd, &stat)) {
    image->minor_faults = stat.minor_faults;
    image->major_faults = stat.major_faults;
  }
}

static struct observed_row *new_row(struct observed *image) {
  if (!image->rows)
    image->rows = malloc(OBSERVED_ROWS * sizeof *image->rows);
  if (!image->rows)
    return NULL;
  if (image->row_count == OBSERVED_ROWS) { /* keep every second row, and double the interval */
    for (uint32_t row = 0; row < OBSERVED_ROWS / 2; row++)
      image->rows[row] = image->rows[2 * row];
    image->row_count = OBSERVED_ROWS / 2;
    image->interval_ns *= 2;
  }
  return &image->rows[image->row_count++];
}

static void name_image(struct observed *image) {
  if (proc_read_file(image->pid, "comm", image->name, sizeof image->name))
    image->name[strcspn(image->name, "\n")] = '\0';
  proc_program(image->pid, image->file, sizeof image->file);
}

/* Reads the image's figures now; adds a row only where one is due. statm is a fifth of the cost of status: resident
   less file and shared pages is anonymous. */
static void sample(struct observed *image, uint64_t now_ns, bool memory) {
  char text[128];
  unsigned long long size, resident, shared;
  if (!image->live)
    return;
  if (!proc_read(image->statm_fd, text, sizeof text) ||
      sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3 || size == 0) {
    image->live = false; /* ended, or a zombie */
    return;
  }
  if (image->guessed)
    name_image(image);
  uint64_t cpu_ns = proc_cpu_ns(image->pid);
  if (cpu_ns > image->cpu_begin_ns)
    image->cpu_ns = cpu_ns - image->cpu_begin_ns;
  image->time_ns = now_ns - image->begin_ns;
  uint64_t os_page = os_page_bytes();
  uint64_t rss = resident > shared ? (resident - shared) * os_page : 0, vm = size * os_page;
  if (rss > image->rss_anon_peak_bytes)
    image->rss_anon_peak_bytes = rss;
  if (vm > image->vm_size_peak_bytes)
    image->vm_size_peak_bytes = vm;
  if (now_ns < image->next_row_ns)
    return;
  image->next_row_ns = now_ns + image->interval_ns; /* also where only time is measured: else the observer would never
                                                       wait */
  struct observed_row *row = memory ? new_row(image) : NULL;
  if (row)
    *row = (struct observed_row){image->time_ns, image->cpu_ns, rss, vm};
}

static void close_image(struct observed *image) {
  image->live = false;
  os_close(image->statm_fd);
  os_close(image->stat_fd);
  image->statm_fd = image->stat_fd = -1;
}

static struct observed *find_live(struct observation *all, pid_t pid) {
  for (uint32_t index = all->count; index-- > 0;)
    if (all->images[index].pid == pid && all->images[index].live)
      return &all->images[index];
  return NULL;
}

static struct observed *new_image(struct observation *all, pid_t pid) {
  if (all->count == OBSERVED_LIMIT) {
    all->lost++;
    all->pending[(uint32_t)pid % OBSERVED_LIMIT].pid = 0;
    return NULL;
  }
  struct observed *image = &all->images[all->count++];
  uint64_t begin_ns = os_monotonic_ns(), cpu_begin_ns = 0; /* of a child of fork */
  uint32_t slot = (uint32_t)pid % OBSERVED_LIMIT;
  bool executed = all->pending[slot].pid == pid;
  if (executed) {
    begin_ns = all->pending[slot].time_ns;
    cpu_begin_ns = all->pending[slot].cpu_ns;
    all->pending[slot].pid = 0;
  }
  *image = (struct observed){.pid = pid,
                             .live = true,
                             .begin_ns = begin_ns,
                             .interval_ns = all->interval_ns,
                             .cpu_begin_ns = cpu_begin_ns,
                             .statm_fd = proc_open(pid, "statm"),
                             .stat_fd = proc_open(pid, "stat")};
  name_image(image);
  read_faults(image);
  if (executed)
    image->faults_begin = image->minor_faults + image->major_faults;
  return image;
}

static pid_t process_of(pid_t thread) {
  char text[2048];
  return proc_read_file(thread, "status", text, sizeof text) ? (pid_t)proc_status_number(text, "\nTgid:", 0) : thread;
}

/* Returns the image that a thread belongs to; an unknown image begins with this call. */
static struct observed *image_of(struct observation *all, pid_t thread) {
  uint32_t slot = (uint32_t)thread % OBSERVED_LIMIT;
  if (all->threads[slot].thread == thread && all->threads[slot].image < all->count &&
      all->images[all->threads[slot].image].live)
    return &all->images[all->threads[slot].image];
  pid_t pid = process_of(thread);
  struct observed *image = find_live(all, pid);
  if (!image)
    image = new_image(all, pid);
  if (image) {
    all->threads[slot].thread = thread;
    all->threads[slot].image = (uint32_t)(image - all->images);
  }
  return image;
}

/* An image that a successful exec ends keeps its last figures. The next one begins with its first call, or in
   observe_sample: where only time is measured, the first call may be its exit. The memory of a process that is not
   known yet is not read here: a child of vfork still has its parent's. */
static void at_exec(struct observation *all, pid_t thread) {
  pid_t pid = process_of(thread);
  struct observed *image = find_live(all, pid);
  if (image) {
    sample(image, os_monotonic_ns(), all->memory);
    read_faults(image);
    close_image(image);
  }
  uint32_t slot = (uint32_t)pid % OBSERVED_LIMIT;
  all->pending[slot].pid = pid;
  all->pending[slot].time_ns = os_monotonic_ns();
  all->pending[slot].cpu_ns = proc_cpu_ns(pid);
}

static void at_exit(struct observation *all, pid_t thread) {
  struct observed *image = image_of(all, thread);
  if (!image)
    return;
  image->next_row_ns = 0; /* the last row */
  sample(image, os_monotonic_ns(), all->memory);
  read_faults(image);
  char text[4096];
  if (proc_read_file(image->pid, "status", text, sizeof text))
    image->vm_hwm_bytes = proc_status_number(text, "\nVmHWM:", 0) << 10;
  image->exited = true;
}

static void count_call(struct observation *all, pid_t thread, const struct seccomp_data *data) {
  struct observed *image = image_of(all, thread);
  if (!image)
    return;
  for (int call = 0; call < OBSERVED_CALLS; call++)
    image->calls[call] += data->nr == numbers[call];
  if (notify_may_shrink(data, 0))
    sample(image, os_monotonic_ns(), all->memory);
}

void observe_answer(struct observation *all) {
  struct seccomp_notif notice;
  if (!notify_receive(all->listener, &notice))
    return;
  pid_t thread = (pid_t)notice.pid;
  if (notice.data.nr == SYS_execve || notice.data.nr == SYS_execveat)
    at_exec(all, thread);
  else if (notice.data.nr == SYS_exit_group)
    at_exit(all, thread);
  else
    count_call(all, thread, &notice.data);
  notify_answer(all->listener, notice.id);
}

void observe_begin(struct observation *all, int socket, pid_t child) {
  all->listener = notify_accept(socket);
  if (all->listener < 0)
    new_image(all, child);
}

/* Begins images for processes that called exec a while ago and have made no call since. On a busy machine a process may
   wait longer for a processor and not have completed its exec yet: so its name is read again at each sample. */
static void begin_pending(struct observation *all, uint64_t now_ns) {
  for (uint32_t slot = 0; slot < OBSERVED_LIMIT; slot++) {
    if (!all->pending[slot].pid || now_ns - all->pending[slot].time_ns <= EXEC_SETTLES_NS)
      continue;
    struct observed *image = new_image(all, all->pending[slot].pid);
    if (image)
      image->guessed = true;
  }
}

uint64_t observe_sample(struct observation *all) {
  uint64_t now = os_monotonic_ns(), next = now + all->interval_ns;
  if (!all->memory)
    begin_pending(all, now);
  for (uint32_t index = 0; index < all->count; index++) {
    struct observed *image = &all->images[index];
    if (!image->live)
      continue;
    if (now >= image->next_row_ns)
      sample(image, now, all->memory);
    if (image->live && image->next_row_ns < next)
      next = image->next_row_ns;
    if (!image->live)
      close_image(image);
  }
  return next;
}

void observe_finish(struct observation *all) {
  for (uint32_t index = 0; index < all->count; index++) {
    close_image(&all->images[index]);
    free(all->images[index].rows);
    all->images[index].rows = NULL;
  }
  os_close(all->listener);
}
