/* SPDX-License-Identifier: MIT */
/* What the kernel counts of a process: page faults; memory, from /proc/PID/status. No malloc; safe in the engine, in
   any thread, and in its parent. */
#pragma once

#include <stdint.h>
#include <sys/resource.h>

struct proc_status {
  uint64_t rss_anon_bytes, vm_size_bytes;
  uint64_t vm_hwm_bytes; /* the kernel's own maximum of all of RSS since exec */
};

/* Reads from an open /proc/PID/status. Returns 0, or -1: it can't be read. */
int proc_status_read(int fd, struct proc_status *status);

static inline uint64_t faults_of(int who) {
  struct rusage usage = {0};
  getrusage(who, &usage);
  return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

/* Returns the major page faults of the whole process. */
static inline uint64_t major_faults_of_process(void) {
  struct rusage usage = {0};
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_majflt;
}

/* Returns the minor and major faults of the calling thread so far. */
static inline uint64_t faults_of_thread(void) {
  return faults_of(RUSAGE_THREAD);
}

/* Returns the same for the whole process, ended threads included. */
static inline uint64_t faults_of_process(void) {
  return faults_of(RUSAGE_SELF);
}
