/* SPDX-License-Identifier: MIT */
/* The state of the engine's process while it replays: the workload, its objects, its threads, the shared result.

   Job: the state that loop, orders, passes and memory figures share, and the common ways to fail. Invariants: nothing
   of the engine calls malloc; its tables are shared mappings (RssShmem), faulted in before the first op, so that
   RssAnon minus the baseline is the allocator's; errors end the process after they are stored in the shared result; set
   up before the first op and not moved afterwards; a worker belongs to one live thread at a time; an object's entry is
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

/* Whose stream the calling thread replays; NULL: none. */
extern __thread const struct replay_thread *engine_running;

/* Fills in the result's error as "WORKLOAD: offset N: ..." and ends the process. word: where; NULL: no place. */
__attribute__((noreturn, format(printf, 2, 3))) void engine_fail(const uint64_t *word, const char *format, ...);

/* A fatal signal from now on is noted in the result: which thread it was, or that the workload's file was cut short. */
void engine_watch_for_signals(void);

/* The engine process's main (engine.c): fds of the shared area and of the workload. Returns its exit status. */
int engine_main(int result_fd, int workload_fd);
