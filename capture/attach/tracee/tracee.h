/* SPDX-License-Identifier: MIT */
/* Another process, all of whose threads can be held for a moment: by ptrace, without a debugger.

   Not its job: what is read or written meanwhile (redirect.h). Invariants: a thread is held from tracee_hold to
   tracee_release and is not traced at other times, so that a tracer that ends leaves it as it was; a signal that
   arrives in between is delivered afterwards; a system call that was interrupted is made again. All functions must be
   called from the thread that called tracee_open. Allocates with malloc; changes errno. */
#pragma once

#include "core/base/error.h"
#include "core/base/vector.h"
#include "core/system/process.h"

#include <stdbool.h>
#include <stdint.h>

struct tracee_thread {
  int tid;
  int signal; /* to be delivered when it is released; 0: none */
  enum tracee_state {
    TRACEE_CALLED, /* asked to stop */
    TRACEE_STOPPED,
    TRACEE_IN_KERNEL, /* asleep in a system call that can't be interrupted: it stops before it leaves that call */
  } state;
  bool seen; /* in the latest list of threads */
};

struct tracee {
  int pid;
  int memory_fd; /* of the address space that it had at the opening; a program that it executes has another */
  VECTOR(struct tracee_thread) threads;
  uint64_t held_since_ns;
  uint64_t longest_hold_ns; /* from the first thread's stop until the last one continued */
};

/* Opens the memory. -1: the process has ended, or may not be read. */
int tracee_open(struct tracee *tracee, int pid, struct error *error);

/* Releases the process, and waits for threads that are held in the kernel, for a second at most. */
void tracee_close(struct tracee *tracee);

/* Stops all threads. -1: they are not held, and continue. */
int tracee_hold(struct tracee *tracee, struct error *error);
void tracee_release(struct tracee *tracee);

/* Releases threads that were held in the kernel and have left it since. */
void tracee_settle(struct tracee *tracee);

/* The path of a file of the process in /proc, by a thread that lives, as a main thread that has ended shows no memory.
   path: TRACEE_PATH_BYTES. */
enum { TRACEE_PATH_BYTES = 80 };
void tracee_proc_path(int pid, const char *file, char *path);

/* The id of a thread, or of the process itself, in the process's own PID namespace; 0: it has ended. */
int tracee_inner_id(const struct tracee *tracee, int tid);

/* False: those bytes are not there (any more). Writing does not need the mapping's permission, but tracee_hold. */
bool tracee_read(const struct tracee *tracee, uint64_t address, void *to, size_t bytes);
bool tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t bytes);
bool tracee_read_word(const struct tracee *tracee, uint64_t address, uint64_t *word);
bool tracee_write_word(const struct tracee *tracee, uint64_t address, uint64_t word);

/* Reads the registers of a held thread. False: it is in the kernel, and they are not known. */
struct tracee_registers {
  uint64_t instruction, stack, thread_pointer;
};
bool tracee_registers(const struct tracee_thread *thread, struct tracee_registers *registers);

/* Makes a held thread continue at another instruction. False: it can't be done. */
bool tracee_move(const struct tracee_thread *thread, uint64_t instruction);

/* A system call with a time limit that was interrupted is continued by another system call, restart_syscall. Makes the
   thread make the same call again instead: its time limit begins anew. */
void tracee_avoid_restart(const struct tracee_thread *thread);

/* Makes a system call in one of the held threads, at an existing system call instruction. -1: it could not be made. */
struct tracee_syscall {
  uint64_t instruction; /* address of a system call instruction */
  long number;
  uint64_t argument[6];
};
int tracee_make_syscall(struct tracee *tracee, const struct tracee_syscall *call, int64_t *result, struct error *error);
