/* SPDX-License-Identifier: MIT */
/* The parts of the program heaptape-record around the collector: its command line (options.c), the checks before
   anything is started (preflight.c), running the program under Valgrind (simulator.c), what is printed (report.c).

   Not its job: recording (collector.h). One thread. */
#pragma once

#include "capture/recorder/recording.h"
#include "core/base/cli.h"
#include "core/base/error.h"

#include <stddef.h>

/* --- options.c: one table, from which words are parsed and refused, and --help and --describe-options are printed
   (core/base/cli.h); which options exclude or need one another --- */

struct command {
  struct collector_settings settings; /* as the options set it */
  const char *preload;                /* NULL: none */
  int toggle_signal;                  /* starts and stops the recording when the recorder receives it; 0: none */
  bool describe;
  bool own_mappings;  /* for large objects of glibc's malloc */
  bool strict;        /* fail where a process was not recorded */
  bool all_processes; /* keep the files of small processes, and print all */
  int attach_pid;     /* of the running process to be recorded; 0: a program is started */
  char **arguments;   /* of the program to be recorded */
};

/* Fills in command, which has its defaults, from the options; argv is kept by reference. Returns CLI_RUN, or the exit
   status: help was printed, or an error. */
int options_parse(struct command *command, int argc, char **argv);

/* --- preflight.c: can the program be recorded at all? Starts and changes nothing, allocates nothing --- */

/* Finds command as execvp would (path is filled in) and checks it: an ELF program of this machine, without rights that
   make the loader ignore LD_PRELOAD; or a script whose interpreter is one. static_program: that program, if it names no
   dynamic loader; else "". Both are PATH_MAX bytes. Returns 0; 127 not found, 126 not executable, 1 cannot be recorded;
   error has the reason. */
int preflight_program(const char *command, char *path, char *static_program, struct error *error);

/* Can a static program be recorded with these options, and what are the functions of its allocator? 0, or 1 with
   error. */
int preflight_static(const struct command *command, const char *program, struct linked_list *functions,
                     struct error *error);

/* Finds one of our libraries relative to the running program: ../lib or ../../lib/heaptape. path is PATH_MAX bytes.
   Returns 0, or 1 with error. */
int preflight_library(const char *name, char *path, struct error *error);

/* Can libunwind be loaded? 0, or 1 with error. */
int preflight_libunwind(struct error *error);

/* Finds a library, by its path or as the dynamic linker finds its name; path, of PATH_MAX bytes, is one that can be in
   LD_PRELOAD (core/system/preloadable.h). 0, or 1 with error. */
int preflight_preload(const char *library, char *path, struct error *error);

/* Can the library be loaded into the program? A library that was linked against glibc can't be loaded into a musl
   program: musl's loader would end the program. (libheaptape.so itself is made for both.) 0, or 1 with error; a script
   counts as a glibc program. */
int preflight_same_libc(const char *program, const char *library, struct error *error);

/* --- report.c: on standard error: errors as they occur, and at the end what was recorded; and which files stay.

   The one rule on several process images: the requested file is that of the busiest image: of those with at least
   half of the most calls, the one with the highest peak memory (RssAnon); if that, and the command, only start
   programs (they ended by exec or are shells, with less than 10,000 calls; or have less than 1,000), one with fewer
   calls and twice its memory. Images with less than 1 % of all calls lose their file, are counted and named.
   Invariants: a file is deleted only if its recording is complete; what was recorded is said in a few lines, whatever
   the number of processes --- */

#define RECORD "heaptape-record"

/* Gives the busiest image the requested file and deletes those of small ones, except where files rotate; with --attach
   the requested file stays the attached process's. Then prints the lines, and forgets all. all_processes: keeps all
   files, and prints the tree of processes. */
void report_conclude(const struct collector_settings *settings, bool all_processes);

/* The number of bursts of data accesses, and of files written so far; of these, how many should have data accesses and
   have none: an error has named them, and the recording has failed. */
struct report_written {
  uint32_t files, without_accesses;
  uint64_t bursts;
};
struct report_written report_written(void);

/* --- simulator.c: the program under Valgrind, where its data accesses are recorded, or it is static: Valgrind's
   command line, and Valgrind's own errors. For accesses, the recorded library asks the collector for a stream and hands
   it to the tool; in a static program, the tool itself attaches. Invariant: what Valgrind prints is kept out of the
   program's own output --- */

struct simulator;

/* Finds Valgrind and the tool, and makes a directory for Valgrind's messages. functions: of a static program; count 0:
   it is none. Returns 0, or -1 with error. settings are kept by reference. */
int simulator_open(struct simulator **out, const struct collector_settings *settings,
                   const struct linked_list *functions, struct error *error);

/* Becomes the program at path, under Valgrind. Returns only if that fails, with errno. */
void simulator_become(struct simulator *simulator, const char *path, char **arguments);

/* Returns whether Valgrind's log of the process says that Valgrind can't run it; error then has that message. */
bool simulator_complained(const struct simulator *simulator, int pid, struct error *error);

/* Calls report for each process except but_pid that Valgrind can't run, with Valgrind's words. */
void simulator_each_complaint(const struct simulator *simulator, int but_pid,
                              void (*report)(int pid, const char *words));

/* simulator may be NULL. */
void simulator_close(struct simulator *simulator);
