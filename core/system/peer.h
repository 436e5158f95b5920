/* SPDX-License-Identifier: MIT */
/* The process that has asked to be recorded, as the kernel knows it now: whether it is still what it was when it
   connected, and its memory, opened with no more rights than it has itself.

   A recorder that is root could otherwise be made to write into a program with more rights than its user's: a process
   connects, and then executes a setuid program. Invariant: after peer_is_same, an open /proc/PID/mem is of the image
   that asked, as an image that has been replaced can be read and written by nobody. One thread: it takes another
   user's rights for a moment. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct peer {
  int pid, pid_fd;
  unsigned user, group;
  uint64_t device, inode; /* of its program */
};

/* A pidfd of the process that connected; -1 with errno: ESRCH where it was reaped. Of a kernel before 6.5, of the
   process that has its number now; also where connection is -1. */
int peer_pid_fd(int connection, int pid);

/* from: what the kernel reports of the connection. False: it has ended, or is not plainly that user's: one of its user
   or group ids is another, it gained rights, or its memory is closed to its user. To be closed in any case. */
bool peer_open(struct peer *peer, const struct ucred *from, int connection);
void peer_close(struct peer *peer);

/* Is it still the same process, with the same rights and program? */
bool peer_is_same(const struct peer *peer);

/* Opens its /proc/PID/mem for reading and writing, if its own user may; -1 with errno. */
int peer_open_memory(const struct peer *peer);
