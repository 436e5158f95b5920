#include "replay/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const syscall_names[COUNTED_SYSCALLS] = {"mmap", "munmap", "mremap", "madvise", "brk"};

static const int numbers[COUNTED_SYSCALLS] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk};

/* The filter is eight instructions: libseccomp, which would write them for us, calls malloc, and this runs after fork.
   The architecture is not asked for: a filter that only watches has nobody to outwit. */
static int install_filter(void) {
#define NOTIFY_IF(number, steps_left) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, (steps_left) + 1, 0)
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      NOTIFY_IF(SYS_mmap, 4),
      NOTIFY_IF(SYS_munmap, 3),
      NOTIFY_IF(SYS_mremap, 2),
      NOTIFY_IF(SYS_madvise, 1),
      NOTIFY_IF(SYS_brk, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
  };
#undef NOTIFY_IF
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Room for one file descriptor in a message. */
union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

int syscalls_install(int socket) {
  int listener = install_filter();
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

void syscalls_accept(struct syscalls *counts, int socket, pid_t engine) {
  char byte;
  struct iovec part = {&byte, 1};
  union control control;
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  counts->listener = counts->status_fd = -1;
  counts->missing_because = "the kernel does not permit seccomp user notification here";
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
    return;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS)
    return;
  memcpy(&counts->listener, CMSG_DATA(header), sizeof counts->listener);
  counts->missing_because = NULL;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", (int)engine);
  counts->status_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* brk takes an address: the bytes are those by which it moves the break, up or down. 0 asks where it is. */
static uint64_t bytes_of_break(struct syscalls *counts, uint64_t address, const struct replay_result *result) {
  uint64_t before = counts->break_address ? counts->break_address : result->brk_at_setup;
  if (address == 0)
    return 0;
  counts->break_address = address;
  if (before == 0)
    return 0; /* the very first one, before main: from where is not known */
  return address > before ? address - before : before - address;
}

/* May the call take memory away from the process? */
static bool may_shrink(enum counted_syscall number, const struct seccomp_data *data, uint64_t break_before) {
  switch (number) {
  case SYSCALL_MMAP:
    return (data->args[3] & MAP_FIXED) != 0; /* it replaces what is there */
  case SYSCALL_MUNMAP:
    return true;
  case SYSCALL_MREMAP:
    return data->args[2] < data->args[1] || (data->args[3] & MREMAP_FIXED) != 0;
  case SYSCALL_MADVISE: {
    int advice = (int)data->args[2];
    return advice != MADV_NORMAL && advice != MADV_HUGEPAGE && advice != MADV_NOHUGEPAGE && advice != MADV_WILLNEED;
  }
  default:
    return data->args[0] != 0 && data->args[0] < break_before;
  }
}

static void look_at_memory(struct syscalls *counts, const struct replay_result *result) {
  struct proc_status now;
  if (counts->status_fd < 0 || proc_status_read(counts->status_fd, &now) != 0)
    return;
  if (now.rss_anon_bytes > counts->peak.rss_anon_bytes) {
    counts->peak.rss_anon_bytes = now.rss_anon_bytes;
    counts->rss_peak_position = atomic_load(&result->done);
  }
  if (now.vm_size_bytes > counts->peak.vm_size_bytes)
    counts->peak.vm_size_bytes = now.vm_size_bytes;
}

static void add_row(struct syscalls *counts, struct syscall_row row) {
  if (!counts->rows)
    counts->rows = malloc(SYSCALL_ROWS * sizeof *counts->rows);
  if (counts->rows && counts->row_count < SYSCALL_ROWS)
    counts->rows[counts->row_count++] = row;
  else
    counts->rows_lost++;
}

static void count_call(struct syscalls *counts, const struct seccomp_data *data, const struct replay_result *result) {
  enum counted_syscall number = 0;
  while (number < COUNTED_SYSCALLS && data->nr != numbers[number])
    number++;
  if (number == COUNTED_SYSCALLS)
    return;
  uint64_t bytes = number == SYSCALL_MREMAP ? data->args[2] : data->args[1];
  uint64_t break_before = counts->break_address ? counts->break_address : result->brk_at_setup;
  if (number == SYSCALL_BRK)
    bytes = bytes_of_break(counts, data->args[0], result);
  uint32_t phase = atomic_load(&result->phase);
  if (phase == PHASE_LOADING && counts->early_count < EARLY_CALLS)
    counts->early[counts->early_count++] = (struct early_call){data->instruction_pointer, bytes, number};
  if (number == SYSCALL_MADVISE && data->args[0] >= result->file_first && data->args[0] < result->file_last)
    return;
  if (phase == PHASE_EMPTYING) {
    counts->emptying_counts[number]++;
    counts->emptying_bytes[number] += bytes;
  }
  if (phase != PHASE_REPLAY)
    return;
  counts->counts[number]++;
  counts->bytes[number] += bytes;
  add_row(counts, (struct syscall_row){atomic_load(&result->done), bytes, number});
  if (may_shrink(number, data, break_before))
    look_at_memory(counts, result);
}

void syscalls_answer(struct syscalls *counts, const struct replay_result *result) {
  struct seccomp_notif notice;
  memset(&notice, 0, sizeof notice);
  if (ioctl(counts->listener, SECCOMP_IOCTL_NOTIF_RECV, &notice) != 0)
    return;
  count_call(counts, &notice.data, result);
  struct seccomp_notif_resp answer = {.id = notice.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  ioctl(counts->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

void syscalls_finish(struct syscalls *counts, const struct replay_result *result) {
  if (counts->listener < 0)
    return;
  close(counts->listener);
  if (counts->status_fd >= 0)
    close(counts->status_fd);
  /* The last of them is the engine's mapping of the shared area, without which it can't say that its main has begun. */
  for (uint32_t index = 0; index + 1 < counts->early_count; index++) {
    const struct early_call *early = &counts->early[index];
    if (early->caller >= result->linker_first && early->caller < result->linker_last)
      continue;
    counts->counts[early->number]++;
    counts->bytes[early->number] += early->bytes;
  }
}
