/* SPDX-License-Identifier: MIT */
/* What the kernel reports about another process: files of /proc/PID, and system calls before they are made.

   Job: open files of /proc/PID by name, read them whole, find numbers in `status`; seccomp user notification: install a
   filter for a list of calls in a child before it execs, pass the listener to the parent, read and answer
   notifications, determine which calls may take memory away from a process. Memory shrinks in these calls only
   (MADV_FREE and swap aside), so reading RssAnon before each of them gives the exact peak of a process of one thread.
   Not for use inside a host. Nothing here allocates with malloc or keeps state; any thread. */
#pragma once

#include <dirent.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

/* Opens /proc/PID/NAME for reading, close-on-exec; -1: it can't be opened. The caller closes it. */
int proc_open(int pid, const char *name);

/* Reads an open file from its start: at most bytes - 1 bytes, then a zero. False: nothing could be read (fd may be -1).
 */
bool proc_read(int fd, char *text, size_t bytes);

/* The same, but opens and closes the file. */
bool proc_read_file(int pid, const char *name, char *text, size_t bytes);

/* Returns the number in a line of `status`. key: the line's start with the newline before it ("\nVmHWM:"). missing:
   returned where there is no such line. Sizes there are in KiB. */
uint64_t proc_status_number(const char *text, const char *key, uint64_t missing);

/* The process's parent; 0: not known. Async-signal-safe. */
int proc_parent(int pid);

/* The thread's number in the innermost PID namespace that it is in; 0: it can't be read. */
int proc_inner_number(int pid, int tid);

/* How many filters of system calls the process is under, by its `status`; 1 where the kernel does not count them. */
uint64_t proc_filters(const char *status);

/* The path of the program that the process runs, "" where it can't be read; cut to bytes. False: "". */
bool proc_program(int pid, char *path, size_t bytes);

/* The figures of /proc/PID/stat that we use. */
struct proc_stat {
  char name[64], state; /* 'S': asleep, 'Z': a zombie, ... */
  unsigned flags;       /* the kernel's PF_... */
  bool executed;        /* a program, since its fork */
  unsigned long long minor_faults, child_minor_faults, major_faults, child_major_faults;
  unsigned long long user_ns, system_ns; /* in clock ticks of 10 ms or so */
  unsigned long long start;              /* in clock ticks since the system's */
  unsigned long long stack;              /* where the image's stack begins; 0: it may not be known */
  int exit_status;                       /* as wait(2) gives it; 0 also where it may not be known */
};

/* Reads an open `stat`. False: it can't be read (fd may be -1). */
bool proc_stat_read(int fd, struct proc_stat *stat);

/* CPU time of all threads of the process, including ended ones, to the ns; 0: the process is gone. */
uint64_t proc_cpu_ns(int pid);

/* Waits of a process's threads for a processor while they could run; of PROC_QUEUED_THREADS at a time. All zero: not
   read yet. */
enum { PROC_QUEUED_THREADS = 64 };
struct proc_queue {
  struct proc_queued_thread {
    int tid;
    uint64_t ran_ns, queued_ns, active_at_ns; /* when it last had run or waited */
  } threads[PROC_QUEUED_THREADS];
  int count;
  uint64_t queued_ns; /* of all threads so far; those that have ended: until the reading before */
  uint32_t active;    /* threads that ran or waited in the second before the last reading */
};

/* Reads them again. False: the kernel does not tell. */
bool proc_queue_read(int pid, struct proc_queue *queue);

/* The least quota of processor time of the process's control group and those above it. */
struct proc_quota {
  double processors; /* 0: there is none, or none can be read */
  int stat_fd;       /* -1: there is none; the caller closes it */
};
struct proc_quota proc_quota_open(int pid);

/* How long it has held back what wanted to run in that group, in ns; missing: there is none, or it can't be read. */
uint64_t proc_quota_throttled_ns(const struct proc_quota *quota, uint64_t missing);

/* Opens /proc/PID/maps; NULL: it can't be opened. The caller closes it. */
FILE *proc_open_maps(int pid);

/* One line of it. */
struct proc_mapping {
  uint64_t start, end, offset, device, inode;
  char permissions[5]; /* "r-xp" */
  char path[4096];     /* without " (deleted)"; empty: anonymous */
};

/* Reads the next line of an open maps file; false: there is none. */
bool proc_maps_next(FILE *maps, struct proc_mapping *mapping);

/* Has the process mapped a file of that base name? */
bool proc_has_mapped(int pid, const char *name);

/* Is that file of the process's /proc entry, "root" or "ns/NAME", another than ours? */
bool proc_differs(int pid, const char *name);

/* The same, but opens and closes the file, which is NAME of /proc/PID. False also: it has ended. */
bool proc_stat_of(int pid, const char *name, struct proc_stat *stat);

/* The state letter of a thread, 'S': asleep, 'T': stopped, ...; 0: it has ended. */
char proc_thread_state(int pid, int tid);

/* Fills in the processes that the process's main thread has started, at most `most`. Returns how many; 0 also where the
   kernel does not list children. */
size_t proc_children(int pid, int *children, size_t most);

/* The word of that type in an open `auxv`; 0: it has none, or can't be read (fd may be -1). */
uint64_t proc_auxiliary(int fd, uint64_t type);

/* Was the process of that pidfd reaped? Its number may be another process's then. */
bool process_is_reaped(int pid_fd);

/* Opens /proc/PID/task; NULL: it can't be opened. The caller closes it. */
DIR *proc_open_threads(int pid);

/* The next thread there, or the next process in an open /proc; 0: there is no more (directory may be NULL). */
int proc_next(DIR *directory);

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

/* What the kernel counts of a process: page faults; memory, from /proc/PID/status. No malloc; safe in the engine, in
   any thread, and in its parent. */

struct proc_status {
  uint64_t rss_anon_bytes, vm_size_bytes;
  uint64_t vm_hwm_bytes; /* the kernel's own maximum of all of RSS since exec */
};

/* Reads from an open /proc/PID/status. Returns 0, or -1: it can't be read. */
int proc_status_read(int fd, struct proc_status *status);

/* Returns how many transparent huge pages of private memory the process has; 0 also where the kernel can't say. Takes
   time for each OS page that is mapped. */
uint64_t proc_huge_pages(void);

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
