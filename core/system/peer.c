/* SPDX-License-Identifier: MIT */
#include "core/system/peer.h"

#include "core/base/os.h"
#include "core/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Are the four ids in that line of `status` this one? */
static bool all_are(const char *status, const char *key, unsigned wanted) {
  unsigned id[4];
  const char *line = strstr(status, key);
  return line && sscanf(line + strlen(key), "%u %u %u %u", &id[0], &id[1], &id[2], &id[3]) == 4 && id[0] == wanted &&
         id[1] == wanted && id[2] == wanted && id[3] == wanted;
}

/* Reads what it is now. The kernel gives the files of a process whose memory is closed to its user to root. */
static bool look(const struct peer *peer, struct stat *program) {
  char path[64], status[8192];
  struct stat entry;
  snprintf(path, sizeof path, "/proc/%d", peer->pid);
  if (stat(path, &entry) != 0 || entry.st_uid != peer->user)
    return false;
  snprintf(path, sizeof path, "/proc/%d/exe", peer->pid);
  return proc_read_file(peer->pid, "status", status, sizeof status) && all_are(status, "\nUid:", peer->user) &&
         all_are(status, "\nGid:", peer->group) && stat(path, program) == 0;
}

int peer_pid_fd(int connection, int pid) {
  enum { PEER_PIDFD = 77 }; /* SO_PEERPIDFD of newer headers */
  int fd = -1;
  socklen_t bytes = sizeof fd;
  if (getsockopt(connection, SOL_SOCKET, PEER_PIDFD, &fd, &bytes) != 0) {
    if (errno == ENOPROTOOPT || connection < 0)
      return (int)syscall(SYS_pidfd_open, pid, 0);
    errno = ESRCH;
    return -1;
  }
  if (process_is_reaped(fd)) {
    close(fd);
    errno = ESRCH;
    return -1;
  }
  return fd;
}

bool peer_open(struct peer *peer, const struct ucred *from, int connection) {
  struct stat program;
  *peer = (struct peer){.pid = from->pid, .pid_fd = -1, .user = from->uid, .group = from->gid};
  peer->pid_fd = peer_pid_fd(connection, from->pid);
  if (peer->pid_fd < 0 || !look(peer, &program))
    return false;
  peer->device = program.st_dev;
  peer->inode = program.st_ino;
  return true;
}

void peer_close(struct peer *peer) {
  os_close(peer->pid_fd);
  peer->pid_fd = -1;
}

bool peer_is_same(const struct peer *peer) {
  struct stat program;
  return look(peer, &program) && program.st_dev == peer->device && program.st_ino == peer->inode &&
         syscall(SYS_pidfd_send_signal, peer->pid_fd, 0, NULL, 0) == 0; /* last: until now it was that process */
}

int peer_open_memory(const struct peer *peer) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", peer->pid);
  if (peer->user == 0 && geteuid() == 0) /* it has no more rights than we */
    return open(path, O_RDWR | O_CLOEXEC);
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3], none[_LINUX_CAPABILITY_U32S_3];
  if (syscall(SYS_capget, &header, own) != 0)
    return -1;
  memcpy(none, own, sizeof none);
  for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
    none[i].effective = 0;
  int group = setfsgid(peer->group), user = setfsuid(peer->user), fd = -1, error = EPERM;
  if (syscall(SYS_capset, &header, none) == 0) {
    fd = open(path, O_RDWR | O_CLOEXEC);
    error = errno;
    if (syscall(SYS_capset, &header, own) != 0 && fd >= 0) {
      error = errno;
      close(fd);
      fd = -1;
    }
  }
  setfsuid((uid_t)user);
  setfsgid((gid_t)group);
  errno = error;
  return fd;
}
