/* SPDX-License-Identifier: MIT */
/* The state of the engine's process while it replays: the workload, its objects, its threads, the shared result.

   Job: the state that loop, orders, passes and memory figures share, and the common way to fail. Invariants: nothing of
   the engine calls malloc; its tables are shared mappings (RssShmem), faulted in before the first op, so that RssAnon
   minus the baseline is the allocator's; errors end the process after they are stored in the shared result; set up
   before the first op and not moved afterwards; a worker belongs to one live thread at a time; an object's entry is
   changed only by the thread whose op is on its slot. */
#pragma once

#include "core/workload/workload_read.h"
#include "replay/engine/pass.h"
#include "replay/engine/result.h"

#include <pthread.h>

/* An object of the workload. Two words in one cache line: the size costs nothing once the pointer was fetched. */
struct object {
  void *pointer;
  uint64_t size_bytes; /* requested; OBJECT_MISSING: its acquire failed */
};
#define OBJECT_MISSING UINT64_MAX

enum { SEEN_ENTRIES = 64 };

/* The data of a live thread, kept in a pool and passed on when the thread ends. */
struct worker {
  struct workload_stream stream;
  uint64_t ops, skipped, failed_calls, waits, wait_cycles, wait_cpu_ns, start_cpu_ns, cpu_ns, engine_faults;
  struct replay_pace pace;
  bool prefaulted; /* stack and buffer are */
  uint64_t substituted[CALL_LIMIT];
  /* What other threads are known to have completed: stays true, so it may be passed on, too. */
  struct {
    uint32_t thread;
    uint64_t ops;
  } seen[SEEN_ENTRIES];
  void *own; /* the pass's; NULL: it needs nothing */
};

/* A thread of the workload. */
struct replay_thread {
  struct watermark position; /* lower bound of its next op's; UINT64_MAX once it has ended */
  struct watermark
      granted;    /* ORDER_RECORDED: ops that it may have completed before it passes the turn on; ORDER_RANDOM: turns */
  uint64_t turns; /* ORDER_RANDOM: turns taken so far */
  uint64_t awaited_ops; /* ORDER_RANDOM: its next op comes after this many of awaited_thread */
  uint32_t awaited_thread;
  uint32_t turn_index; /* ORDER_RANDOM: among the live threads (order.c) */
  struct worker *worker;
  pthread_t handle;
  uint32_t number;
  uint32_t live_index; /* in engine.live */
  _Atomic bool started;
  struct replay_thread *next_ended;
};

struct engine {
  struct replay_result *result;
  const struct run_spec *spec; /* result->spec */
  const struct pass *pass;
  void *figures;               /* of the pass, in the shared area */
  struct watermark *completed; /* result->completed */
  struct workload workload;
  struct object *objects;
  struct replay_thread *threads;
  bool paced;
  bool clock_steps;  /* the workload has no times: the clock advances by RECORDED_CLOCK_STEP_NS with each op */
  bool isolated;     /* the workload has objects in the isolated heap */
  uint64_t op_limit; /* UINT64_MAX: none */
};

extern struct engine engine;

/* Fills in the result's error as "WORKLOAD: offset N: ..." and ends the process. word: where; NULL: no place. */
__attribute__((noreturn, format(printf, 2, 3))) void engine_fail(const uint64_t *word, const char *format, ...);

/* The engine process's main: fds of the shared area and of the workload. Returns its exit status. */
int engine_main(int result_fd, int workload_fd);

/* Threads of the workload: started where the program started them, ended where it ended them, with stacks that are not
   the allocator's.

   Job: a pool of stacks and workers, start, exit, joining. Invariants: thread 0 is the process's main thread, as in a
   program; a stack is reused only after its thread has completely ended; stacks are shared memory, so that they are not
   in RssAnon. pthread_create itself requests a few hundred bytes from the allocator (the thread's table of TLS blocks,
   freed at join). These are left out of a recording of the replay, but count as the allocator's memory, as they do in
   the program. */

/* Call before the first op. body: replays a thread's stream. Returns 0, or -1 with errno set. */
int threads_setup(void (*body)(struct replay_thread *self));

/* Starts the workload's thread that word, a START of starter, names. position: lower bound of starter's next op. The
   CPU time of starting is kept separate from the stream's. */
void threads_start(struct replay_thread *starter, const uint64_t *word, uint64_t position);

/* Replays thread 0's stream `rounds` times on the calling thread, without the pass, and releases what lives after each:
   then the heap has grown and is warm. Call after threads_setup, before threads_run_all, for workloads of one thread
   without isolated objects. body: as of threads_setup. */
void threads_warm_up(uint64_t rounds, void (*body)(struct replay_thread *self));

/* Runs thread 0 on the calling thread, and returns when all threads have ended. */
void threads_run_all(void);

/* Waits for the exit of all threads whose streams have ended, and takes their stacks back. */
void threads_reap(void);

/* Calls visit for each worker that was ever used. */
void threads_visit_workers(void (*visit)(const struct worker *worker));

/* What is loaded into the engine's process: the allocator under test, its libraries, the dynamic linker.

   Job: report what the linker loaded; check that the allocator defines what the workload calls; fault in file pages;
   read what the allocator itself counted. Uses no malloc. */

/* Fills in preloads_missing (from LD_PRELOAD: the linker only warns about a library that it can't load), linker_first
   and linker_last. */
void preload_report(struct replay_result *result);

/* Fills in which library's malloc the calls go to. Call after the set-up of calls. */
void malloc_library_report(struct malloc_library *library);

/* Call after the set-up of calls, before the first op. Ends the process with an error that names the library and the
   all missing functions if an op needs a function that the library lacks and for which there is no substitute
   (call_lacks), or if the library has malloc but no free. Reads the streams only if there is such a function. */
void entry_points_require(void);

/* Faults in the file pages of all loaded ELF objects, so that later counts of page faults do not depend on the page
   cache. A page of a file faults at its first use, unless the kernel mapped it along with a neighbour. The kernel does
   that if the page cache has both in one piece: the same run counted one fault more after the engine's file had been
   read from the disk again. Pages that were faulted in beforehand do not fault again, so only memory is counted:
   anonymous pages, and private copies of a library's data. Not: objects loaded afterwards (dlopen), and other mapped
   files. Call before the first op, as it makes a system call (madvise) for each segment. Changes errno. Skips what
   can't be faulted in. */
void file_pages_fault_in(void);

/* Fills in the counts of this process's allocator, if it has any. The parent prints them as "reference_stats": the key
   is older than our other allocators. Do not call while other threads start or end. */
void allocator_stats_read(struct allocator_stats *stats);
