/* SPDX-License-Identifier: MIT */
/* Page faults as the kernel counts them. Safe anywhere: one system call, no allocation. */
#pragma once

#include <stdint.h>
#include <sys/resource.h>

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
