/* SPDX-License-Identifier: MIT */
/* System calls of another process, reported before they are made: seccomp user notification, the part that its two
   users share (syscalls.h counts an allocator's system calls, observe.h watches a live program).

   Job: install a filter for a list of calls in a child before it execs, pass the listener to the parent, read and
   answer notifications, determine which calls may take memory away from a process. Not its job: what a call means to
   its users. Memory shrinks in these calls only (MADV_FREE and swap aside), so reading RssAnon before each of them
   gives the exact peak of a process of one thread. */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

enum { NOTIFY_CALLS_LIMIT = 16 };

/* In the child, between fork and exec: installs the filter for `count` call numbers and sends the listener over the
   socket. Returns 0, or -1 with errno set and the socket closed, which the parent notices. Async-signal-safe. */
int notify_install(int socket, const int *numbers, unsigned count);

/* In the parent: receives the listener; -1 where the kernel does not permit it. */
int notify_accept(int socket);

/* Reads the next notification; false if there is none. Does not block if poll found the listener readable. */
bool notify_receive(int listener, struct seccomp_notif *notice);

/* Lets the call continue. */
void notify_answer(int listener, uint64_t id);

/* May the call take memory away from the process? break_before: its program break now (0: not known). */
bool notify_may_shrink(const struct seccomp_data *data, uint64_t break_before);
