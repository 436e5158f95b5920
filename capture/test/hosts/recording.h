/* SPDX-License-Identifier: MIT */
/* For the tests of this folder: runs a program under the recorder that was built beside the test, and reads its output.

   A program holds several claims, and is linked under the name of each. Every one is driver and host in one: without
   arguments it is the driver, with arguments (the first is "host") it is the program that is recorded. */
#pragma once

#include "core/test/check.h"
#include "core/trace/event.h"

/* Defined by the program; ends with a null name. test runs without arguments, in an empty directory that is removed at
   exit, host with arguments. They return the exit status. */
struct claim {
  const char *name;
  int (*test)(void);
  int (*host)(void);
  enum { ANYWHERE, STEPS, OS_PAGES_OF_4_KIB } needs; /* STEPS: single_step.h */
};
extern const struct claim claims[];

/* The claim that this process is for: a host that executes itself gives it as the first word. */
const char *claim_name(void);
extern char **host_arguments; /* those after the first; ends with NULL */

struct recorded {
  uint64_t events, dropped, calls[CALL_LIMIT], failed[CALL_LIMIT], null_in[CALL_LIMIT];
  uint32_t threads;
  int truncated;
  long nested, in_flight; /* of the footer, -1: none */
  char end[16];
};

/* Runs heaptape-record -o t.tape OPTIONS... -- SELF host; options ends with NULL and may be NULL. Returns its wait
   status. The second form runs another program (found as execvp would) instead of SELF host; the third preloads our
   allocator in front of the C library's, and the host must end well. */
int record_self(const char *const *options);
int record_program(const char *const *options, const char *const *program);
void record_self_on_bump(void);

/* Runs SELF host bare and recorded (with -o t.tape): exit status, standard output and standard error, except our own
   lines, must be the same, and every trace complete and a legal history. A host that exits with 77 skips the test, with
   its output as the reason. Returns t.tape's summary; status (may be NULL) receives the host's wait status. */
struct recorded same_as_bare(const char *const *options, int *status);

/* Path of a file that was built along: "lib/test/libbump.so"; of the test itself. Static memory. */
const char *built_file(const char *name);
const char *self_path(void);

/* Reads a whole trace; visit (may be NULL) sees each event, thread by thread. Fails the test if the trace can't be
 * read. */
struct recorded read_trace(const char *path,
                           void (*visit)(void *context, uint32_t thread, const struct trace_event *event),
                           void *context);

/* The number of events of that call (-1: of any) and size in the trace. */
uint64_t count_events(const char *path, int call, uint64_t size_bytes);

/* For read_trace, with an array that ends with size 0 as its context: what the first thread acquires of each size, and
   how often it releases the object of that size that it has acquired last. */
struct pairs {
  uint64_t size_bytes, last;
  long acquired, released;
};
void count_pairs(void *pairs, uint32_t thread, const struct trace_event *event);

/* Paths of the traces in the current directory, in name order; returns how many. */
int list_traces(char paths[][256], int max);

/* Starts that many threads, each with its own argument: &arguments[i * bytes] (or NULL); waits for their ends. */
void run_threads(int count, void *(*work)(void *), void *arguments, size_t bytes);

/* A file of the host's of 4096 bytes, zero at first, which the driver maps too. */
void *shared_counts(void);

/* Calls that the compiler can't leave out. */
static inline void *keep(void *object) {
  __asm__ volatile("" : "+r"(object)::"memory");
  return object;
}
