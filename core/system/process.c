/* SPDX-License-Identifier: MIT */
#include "core/system/process.h"

#include "core/base/os.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int proc_open(int pid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

bool process_is_reaped(int pid_fd) {
  return syscall(SYS_pidfd_send_signal, pid_fd, 0, NULL, 0) != 0 && errno == ESRCH;
}

bool proc_read(int fd, char *text, size_t bytes) {
  ssize_t got = fd < 0 ? -1 : pread(fd, text, bytes - 1, 0);
  if (got <= 0)
    return false;
  text[got] = '\0';
  return true;
}

bool proc_read_file(int pid, const char *name, char *text, size_t bytes) {
  int fd = proc_open(pid, name);
  bool got = proc_read(fd, text, bytes);
  os_close(fd);
  return got;
}

uint64_t proc_status_number(const char *text, const char *key, uint64_t missing) {
  const char *line = strstr(text, key);
  return line ? strtoull(line + strlen(key), NULL, 10) : missing;
}

int proc_parent(int pid) {
  char status[4096];
  return proc_read_file(pid, "status", status, sizeof status) ? (int)proc_status_number(status, "\nPPid:", 0) : 0;
}

int proc_inner_number(int pid, int tid) {
  char name[32], status[4096];
  int number = 0, used;
  snprintf(name, sizeof name, "task/%d/status", tid);
  const char *list = proc_read_file(pid, name, status, sizeof status) ? strstr(status, "\nNSpid:") : NULL;
  for (list = list ? list + 7 : ""; sscanf(list, "%*[\t]%d%n", &number, &used) == 1; list += used)
    ;
  return number;
}

uint64_t proc_filters(const char *status) {
  uint64_t filters = proc_status_number(status, "\nSeccomp_filters:", 0);
  return filters ? filters : proc_status_number(status, "\nSeccomp:", 0) != 0;
}

bool proc_program(int pid, char *path, size_t bytes) {
  char link[32];
  snprintf(link, sizeof link, "/proc/%d/exe", pid);
  ssize_t length = readlink(link, path, bytes - 1);
  path[length > 0 ? length : 0] = '\0';
  return length > 0;
}

bool proc_stat_read(int fd, struct proc_stat *stat) {
  enum { FORKED_ONLY = 0x40 }; /* the kernel's PF_FORKNOEXEC */
  char text[2048];
  const char *name, *end; /* the name may hold anything; behind it are fields 3 to 52 */
  if (!proc_read(fd, text, sizeof text) || !(name = strchr(text, '(')) || !(end = strrchr(name, ')')) ||
      sscanf(end + 1,
             " %c %*d %*d %*d %*d %*d %u %llu %llu %llu %llu %llu %llu %*d %*d %*d %*d %*d %*d %llu %*u %*d %*u %*u "
             "%*u %llu",
             &stat->state, &stat->flags, &stat->minor_faults, &stat->child_minor_faults, &stat->major_faults,
             &stat->child_major_faults, &stat->user_ns, &stat->system_ns, &stat->start, &stat->stack) != 10)
    return false;
  stat->executed = !(stat->flags & FORKED_ONLY);
  snprintf(stat->name, sizeof stat->name, "%.*s", (int)(end - name - 1), name + 1);
  stat->exit_status = atoi(strrchr(end, ' '));
  unsigned long long tick_ns = 1000000000u / (unsigned long long)sysconf(_SC_CLK_TCK);
  stat->user_ns *= tick_ns;
  stat->system_ns *= tick_ns;
  return true;
}

uint64_t proc_cpu_ns(int pid) {
  clockid_t clock;
  struct timespec now;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0)
    return 0;
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The thread in the list, from a place on where it mostly is; a new one comes to that place. */
static struct proc_queued_thread *queued_thread(struct proc_queue *queue, int at, int tid) {
  struct proc_queued_thread *threads = queue->threads;
  int found = at;
  while (found < queue->count && threads[found].tid != tid)
    found++;
  struct proc_queued_thread thread = found < queue->count ? threads[found] : (struct proc_queued_thread){.tid = tid};
  if (found == queue->count && queue->count < PROC_QUEUED_THREADS)
    queue->count++;
  else if (found == PROC_QUEUED_THREADS)
    found--;
  memmove(&threads[at + 1], &threads[at], (size_t)(found - at) * sizeof *threads);
  threads[at] = thread;
  return &threads[at];
}

bool proc_queue_read(int pid, struct proc_queue *queue) {
  enum { ACTIVE_NS = 1000000000 };
  char path[32], text[96];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *threads = opendir(path);
  if (!threads)
    return false;
  uint64_t now_ns = os_monotonic_ns();
  int read = 0;
  queue->active = 0;
  for (struct dirent *entry; read < PROC_QUEUED_THREADS && (entry = readdir(threads));) {
    unsigned long long ran_ns, queued_ns;
    int tid = atoi(entry->d_name); /* of "." and "..": 0 */
    snprintf(path, sizeof path, "task/%d/schedstat", tid);
    if (!tid || !proc_read_file(pid, path, text, sizeof text) || sscanf(text, "%llu %llu", &ran_ns, &queued_ns) != 2)
      continue;
    struct proc_queued_thread *thread = queued_thread(queue, read++, tid);
    if (ran_ns < thread->ran_ns || queued_ns < thread->queued_ns) /* another thread of that number */
      *thread = (struct proc_queued_thread){.tid = tid};
    queue->queued_ns += queued_ns - thread->queued_ns;
    if (ran_ns != thread->ran_ns || queued_ns != thread->queued_ns)
      *thread = (struct proc_queued_thread){tid, ran_ns, queued_ns, now_ns};
    queue->active += thread->active_at_ns && now_ns - thread->active_at_ns < ACTIVE_NS;
  }
  closedir(threads);
  queue->count = read;
  return read > 0;
}

static bool read_in(const char *folder, const char *name, char *text, size_t bytes) {
  char path[2048];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool got = proc_read(fd, text, bytes);
  os_close(fd);
  return got;
}

/* The quota of one control group, in processors; 0: none. Of the second version, or of the first. */
static double quota_of(const char *folder) {
  char text[64], period_text[32];
  double quota_us = 0, period_us = 0;
  if (read_in(folder, "cpu.max", text, sizeof text)) {
    if (sscanf(text, "%lf %lf", &quota_us, &period_us) != 2)
      return 0;
  } else if (read_in(folder, "cpu.cfs_quota_us", text, sizeof text) &&
             read_in(folder, "cpu.cfs_period_us", period_text, sizeof period_text)) {
    quota_us = atof(text);
    period_us = atof(period_text);
  }
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

/* folder: of the group; its parents are tried down to the first `root` characters. In a container the whole path may
   not be there, but the container's own group is the root. */
static void take_quotas(struct proc_quota *quota, char *folder, size_t root) {
  for (char *end = folder + strlen(folder); end; end = strrchr(folder, '/')) {
    *end = '\0';
    if (strlen(folder) < root)
      break;
    double processors = quota_of(folder);
    if (processors <= 0 || (quota->processors > 0 && processors >= quota->processors))
      continue;
    char path[2048];
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    os_close(quota->stat_fd);
    *quota = (struct proc_quota){processors, open(path, O_RDONLY | O_CLOEXEC)};
  }
}

struct proc_quota proc_quota_open(int pid) {
  static const char root[] = "/sys/fs/cgroup";
  struct proc_quota quota = {0, -1};
  char text[8192], folder[1024], *rest = text;
  if (!proc_read_file(pid, "cgroup", text, sizeof text))
    return quota;
  for (char *line; (line = strsep(&rest, "\n"));) {
    char *of = strchr(line, ':'), *path = of ? strchr(of + 1, ':') : NULL;
    if (!path)
      continue;
    *path++ = '\0';
    bool first_version = of[1] != '\0';
    char padded[256];
    snprintf(padded, sizeof padded, ",%s,", of + 1);
    if (first_version && !strstr(padded, ",cpu,"))
      continue;
    size_t root_length = (size_t)snprintf(folder, sizeof folder, "%s%s", root, first_version ? "/cpu" : "");
    bool is_outside = strstr(path, "/.."); /* of our cgroup namespace, and not below this folder */
    snprintf(folder + root_length, sizeof folder - root_length, "%s", is_outside ? "" : path);
    take_quotas(&quota, folder, root_length);
  }
  return quota;
}

uint64_t proc_quota_throttled_ns(const struct proc_quota *quota, uint64_t missing) {
  char text[1024];
  if (!proc_read(quota->stat_fd, text, sizeof text))
    return missing;
  uint64_t us = proc_status_number(text, "\nthrottled_usec ", UINT64_MAX);
  return us == UINT64_MAX ? proc_status_number(text, "\nthrottled_time ", missing) : us * 1000;
}

FILE *proc_open_maps(int pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  return fopen(path, "re");
}

bool proc_maps_next(FILE *maps, struct proc_mapping *mapping) {
  char line[sizeof mapping->path + 128];
  unsigned major, minor;
  int path_at = 0;
  if (!fgets(line, sizeof line, maps) ||
      sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &mapping->start, &mapping->end,
             mapping->permissions, &mapping->offset, &major, &minor, &mapping->inode, &path_at) != 7)
    return false;
  mapping->device = (uint64_t)major << 32 | minor;
  snprintf(mapping->path, sizeof mapping->path, "%.*s", (int)strcspn(line + path_at, "\n"), line + path_at);
  char *deleted = strstr(mapping->path, " (deleted)");
  if (deleted && !deleted[10])
    *deleted = '\0';
  return true;
}

bool proc_has_mapped(int pid, const char *name) {
  struct proc_mapping mapping;
  bool present = false;
  FILE *maps = proc_open_maps(pid);
  while (maps && !present && proc_maps_next(maps, &mapping))
    present = strcmp(basename(mapping.path), name) == 0;
  if (maps)
    fclose(maps);
  return present;
}

bool proc_differs(int pid, const char *name) {
  char its[64], own[64];
  struct stat one, other;
  snprintf(its, sizeof its, "/proc/%d/%s", pid, name);
  snprintf(own, sizeof own, "/proc/self/%s", name);
  return stat(its, &one) == 0 && stat(own, &other) == 0 && (one.st_dev != other.st_dev || one.st_ino != other.st_ino);
}

bool proc_stat_of(int pid, const char *name, struct proc_stat *stat) {
  int fd = proc_open(pid, name);
  bool lives = proc_stat_read(fd, stat) && stat->state != 'Z' && stat->state != 'X';
  os_close(fd);
  return lives;
}

char proc_thread_state(int pid, int tid) {
  char name[32];
  struct proc_stat stat;
  snprintf(name, sizeof name, "task/%d/stat", tid);
  return proc_stat_of(pid, name, &stat) ? stat.state : 0;
}

size_t proc_children(int pid, int *children, size_t most) {
  char name[32], text[4096], *at = text, *end;
  size_t count = 0;
  snprintf(name, sizeof name, "task/%d/children", pid);
  if (!proc_read_file(pid, name, text, sizeof text))
    return 0;
  for (long child; count < most && (child = strtol(at, &end, 10)) > 0; at = end)
    children[count++] = (int)child;
  return count;
}

uint64_t proc_auxiliary(int fd, uint64_t type) {
  Elf64_auxv_t entry;
  for (off_t at = 0; pread(fd, &entry, sizeof entry, at) == sizeof entry; at += (off_t)sizeof entry)
    if (entry.a_type == type)
      return entry.a_un.a_val;
  return 0;
}

DIR *proc_open_threads(int pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  return opendir(path);
}

int proc_next(DIR *directory) {
  for (const struct dirent *entry; directory && (entry = readdir(directory));)
    if (atoi(entry->d_name) > 0)
      return atoi(entry->d_name);
  return 0;
}

/* The filter is a dozen instructions. libseccomp, which could write them, calls malloc, and this runs after fork. The
   architecture is not checked: a filter that only watches need not be safe against evasion. SPEC_ALLOW: without it,
   older kernels make a filtered process slower than others. */
static int install_filter(const int *numbers, unsigned count) {
  struct sock_filter filter[NOTIFY_CALLS_LIMIT + 3] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (unsigned index = 0; index < count; index++)
    filter[1 + index] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[index],
                                                     (unsigned char)(count - index), 0);
  filter[1 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[2 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  struct sock_fprog program = {(unsigned short)(count + 3), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* Room for one file descriptor in a message. */
union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

int notify_install(int socket, const int *numbers, unsigned count) {
  int listener = count <= NOTIFY_CALLS_LIMIT ? install_filter(numbers, count) : -1;
  if (listener < 0) {
    close(socket);
    return -1;
  }
  char byte = 0;
  struct iovec part = {&byte, 1};
  union control control = {
      .header = {.cmsg_len = CMSG_LEN(sizeof listener), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &listener, sizeof listener);
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t sent = sendmsg(socket, &message, 0);
  close(listener);
  close(socket);
  return sent == 1 ? 0 : -1;
}

int notify_accept(int socket) {
  char byte;
  struct iovec part = {&byte, 1};
  union control control;
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
    return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS)
    return -1;
  int listener;
  memcpy(&listener, CMSG_DATA(header), sizeof listener);
  return listener;
}

bool notify_receive(int listener, struct seccomp_notif *notice) {
  memset(notice, 0, sizeof *notice);
  return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notice) == 0;
}

void notify_answer(int listener, uint64_t id) {
  struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

bool notify_may_shrink(const struct seccomp_data *data, uint64_t break_before) {
  switch (data->nr) {
  case SYS_mmap:
    return (data->args[3] & MAP_FIXED) != 0; /* it replaces what is there */
  case SYS_munmap:
    return true;
  case SYS_mremap:
    return data->args[2] < data->args[1] || (data->args[3] & MREMAP_FIXED) != 0;
  case SYS_madvise: {
    int advice = (int)data->args[2];
    return advice != MADV_NORMAL && advice != MADV_HUGEPAGE && advice != MADV_NOHUGEPAGE && advice != MADV_WILLNEED;
  }
  case SYS_brk:
    return data->args[0] != 0 && (break_before == 0 || data->args[0] < break_before);
  default:
    return false;
  }
}

uint64_t proc_huge_pages(void) {
  char text[4096];
  if (!proc_read_file(getpid(), "smaps_rollup", text, sizeof text))
    return 0;
  return proc_status_number(text, "\nAnonHugePages:", 0) / (HUGE_PAGE_BYTES / 1024);
}

int proc_status_read(int fd, struct proc_status *status) {
  char text[4096];
  if (!proc_read(fd, text, sizeof text))
    return -1;
  *status = (struct proc_status){.rss_anon_bytes = proc_status_number(text, "\nRssAnon:", 0) << 10,
                                 .vm_size_bytes = proc_status_number(text, "\nVmSize:", 0) << 10,
                                 .vm_hwm_bytes = proc_status_number(text, "\nVmHWM:", 0) << 10};
  return 0;
}
