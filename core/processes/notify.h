/* SPDX-License-Identifier: MIT */
/* System calls of another process, reported before they are made: seccomp user notification, as far as its two users
   share it (syscalls.h counts an allocator's, observe.h watches a live program).

   Job: install a filter for a list of calls in a child before it becomes something else, hand the listener to the
   parent, read and answer notifications, know which calls may take memory away from a process. Not its job: what a call
   means to whom. Memory falls in these calls only (MADV_FREE and swap aside), so whoever reads RssAnon before each of
   them has the exact peak of a process of one thread. */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

enum { NOTIFY_CALLS_LIMIT = 16 };

/* In the child, between fork and exec: installs the filter for so many call numbers and sends the listener over the
   socket. Returns 0, or -1 with errno set; then the socket is closed, and the parent finds it so. Async-signal-safe. */
int notify_install(int socket, const int *numbers, unsigned count);

/* In the parent: the listener, or -1 where the kernel does not permit it. */
int notify_accept(int socket);

/* The next notification, if there is one; false otherwise. Does not block if poll found the listener readable.
 */
bool notify_receive(int listener, struct seccomp_notif *notice);

/* Lets the call go on. */
void notify_answer(int listener, uint64_t id);

/* May the call take memory away from the process, whose break is there now (0: not known)? */
bool notify_may_shrink(const struct seccomp_data *data, uint64_t break_before);
