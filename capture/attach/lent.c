/* SPDX-License-Identifier: MIT */
#include "capture/attach/lent.h"

#include "capture/wire/redirect.h"
#include "core/base/os.h"
#include "core/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -EAGAIN: no thread could make the call. */
static int64_t call_kernel(const struct lent *lent, long number, uint64_t first, uint64_t second, uint64_t third) {
  struct tracee_syscall call = {lent->syscall_instruction, number, {first, second, third}};
  struct error ignored = {0};
  int64_t result;
  return tracee_make_syscall(lent->tracee, &call, &result, &ignored) == 0 ? result : -EAGAIN;
}

/* Returns -errno where it can't be made. */
static int64_t make_descriptor(const struct lent *lent) {
  enum { EXECUTABLE = 0x10, HIGH = 400 };                                                 /* MFD_EXEC, of Linux 6.3 */
  if (!tracee_write(lent->tracee, lent->path, REDIRECT_LIBRARY, sizeof REDIRECT_LIBRARY)) /* its name */
    return -EFAULT;
  int64_t low = call_kernel(lent, SYS_memfd_create, lent->path, MFD_CLOEXEC | EXECUTABLE, 0);
  if (low == -EINVAL)
    low = call_kernel(lent, SYS_memfd_create, lent->path, MFD_CLOEXEC, 0);
  int64_t high = low < 0 ? low : call_kernel(lent, SYS_fcntl, (uint64_t)low, F_DUPFD_CLOEXEC, HIGH);
  if (low < 0 || high < 0) /* so many descriptors are not allowed */
    return low;
  call_kernel(lent, SYS_close, (uint64_t)low, 0, 0);
  return high;
}

/* Is that memory without a path, of the process's user? Else the process has put another file at that number. */
static bool is_own_memory(const struct lent *lent, int place) {
  char status[4096];
  struct stat its, like;
  int memory = memfd_create("", MFD_CLOEXEC);
  bool is_memory = fstat(place, &its) == 0 && fstat(memory, &like) == 0 && its.st_dev == like.st_dev;
  os_close(memory);
  return is_memory && proc_read_file(lent->tracee->pid, "status", status, sizeof status) &&
         proc_status_number(status, "\nUid:", UINT64_MAX) == its.st_uid;
}

/* Opens it here, with our rights; -1, with errno: the process has closed it, or another file is there. What is opened
   is what was looked at. */
static int open_copy(const struct lent *lent) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", lent->tracee->pid, lent->fd);
  int place = open(path, O_PATH | O_CLOEXEC), fd = -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", place);
  if (place >= 0 && is_own_memory(lent, place))
    fd = open(path, O_WRONLY | O_CLOEXEC);
  os_close(place);
  errno = EBADF;
  return fd;
}

static bool copy(const struct lent *lent, const char *library) {
  int from = open(library, O_RDONLY | O_CLOEXEC), to = open_copy(lent);
  struct stat file = {.st_size = -1};
  ssize_t got = from >= 0 && to >= 0 && fstat(from, &file) == 0 ? sendfile(to, from, NULL, (size_t)file.st_size) : -1;
  os_close(from);
  os_close(to);
  return got > 0 && got == file.st_size;
}

int lent_give(struct lent *lent, const char *library, struct error *error) {
  char path[64];
  if (lent->fd >= 0)
    return 0;
  if (tracee_hold(lent->tracee, error) != 0)
    return -1;
  int64_t made = make_descriptor(lent);
  tracee_release(lent->tracee);
  errno = (int)-made;
  lent->fd = made < 0 ? -1 : (int)made;
  snprintf(path, sizeof path, OBJECT_LENT "%d", lent->fd);
  if (made >= 0 && copy(lent, library) && tracee_write(lent->tracee, lent->path, path, strlen(path) + 1))
    return 0;
  return error_errno(error, "--attach", "the process can't be given our library (memfd_create)");
}

void lent_take_back(struct lent *lent) {
  struct error ignored = {0};
  if (lent->fd < 0 || tracee_hold(lent->tracee, &ignored) != 0)
    return;
  int fd = open_copy(lent);
  if (fd >= 0) {
    close(fd);
    call_kernel(lent, SYS_close, (uint64_t)lent->fd, 0, 0);
  }
  tracee_release(lent->tracee);
  lent->fd = -1;
}
