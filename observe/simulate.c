/* SPDX-License-Identifier: MIT */
/* `observe --simulate`: runs a command under our Valgrind tool in mode simulate (observe/valgrind): exact counts of a
   program.

   Job: start Valgrind, wait, and judge whether it could run the program. Changes the process's signal handling while
   the command runs. */
#include "observe/observe.h"

#include "core/command/cli.h"
#include "core/system/valgrind.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum given { CACHES, INSTRUCTION_CACHE, DATA_ONLY, TLBS, SHIFT, OPTIONS };

/* The tool's options of these names, as given; NULL: not. */
static const char *const names[OPTIONS] = {"caches", "instruction-cache", "data-only", "tlbs", "shift"};
static const char *given[OPTIONS];
static bool asked;

static const struct observe_instead simulation;

static const char *take_simulate(void *field, const char *value) {
  (void)value;
  asked = true;
  *(const struct observe_instead **)field = &simulation;
  return NULL;
}

#define TAKER(name, option)                                                                                            \
  static const char *take_##name(void *field, const char *value) {                                                     \
    given[option] = value ? value : "yes";                                                                             \
    *(const struct observe_instead **)field = &simulation;                                                             \
    return NULL;                                                                                                       \
  }
TAKER(caches, CACHES)
TAKER(instruction_cache, INSTRUCTION_CACHE)
TAKER(data_only, DATA_ONLY)
TAKER(tlbs, TLBS)
TAKER(shift, SHIFT)

static const struct cli_option options[] = {
    {"simulate", 0, NULL, take_simulate, 0,
     .help = "run CMD under Valgrind: instructions, and misses of caches and TLBs", .group = "simulation"},
    {"caches", 0, "BYTES:WAYS,...", take_caches, 0, .help = "the data caches, innermost first", .group = "simulation"},
    {"instruction-cache", 0, "BYTES:WAYS", take_instruction_cache, 0, .help = "the cache of instructions",
     .group = "simulation"},
    {"data-only", 0, NULL, take_data_only, 0, .help = "no caches for instructions", .group = "simulation"},
    {"tlbs", 0, "ENTRIES:WAYS,...", take_tlbs, 0, .help = "the TLBs, innermost first", .group = "simulation"},
    {"shift", 0, "PAGES", take_shift, 0, .help = "OS pages that are mapped before the program's libraries",
     .group = "simulation"},
    {.name = NULL},
};
CLI_ADD(observe, options);

static const char *wrong(bool observes) {
  if (given[DATA_ONLY] && given[INSTRUCTION_CACHE])
    return "--data-only leaves no --instruction-cache";
  if (!asked)
    return "options of the simulation need --simulate";
  return observes ? "--simulate takes neither --time-only nor --interval-us" : NULL;
}

static pid_t running;

static void pass_on(int number) {
  kill(running, number);
}

static void add_options(struct valgrind_command *command, const char *output) {
  valgrind_command_add_live(command, "simulate", true);
  valgrind_command_add(command, "--out-file=%s", output);
  for (int option = 0; option < OPTIONS; option++)
    if (given[option])
      valgrind_command_add(command, "--%s=%s", names[option], given[option]);
}

static int judge(const char *name, const char *output, const char *log, int status, struct error *error) {
  char complaint[1024];
  bool complained = valgrind_complaint(log, complaint, sizeof complaint);
  bool written = access(output, R_OK) == 0;
  /* The launcher could not start the tool, and reported it on stderr. */
  if (access(log, F_OK) != 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
    return WEXITSTATUS(status);
  if (written && !(complained && WIFSIGNALED(status)))
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (complained)
    return error_set(error, name, "Valgrind can't run it: %s", complaint);
  if (WIFSIGNALED(status))
    return error_set(error, name, "no result: killed by signal %d (SIG%s)", WTERMSIG(status),
                     signal_name(WTERMSIG(status)));
  return error_set(error, name, "no result: Valgrind can't run it, or %s can't be written", output);
}

static void print_file(const char *path) {
  FILE *file = fopen(path, "r");
  char line[4096];
  while (file && fgets(line, sizeof line, file))
    fputs(line, stderr);
  if (file)
    fclose(file);
}

/* The command's result is in OUTPUT, those of other processes in OUTPUT.PID, so the tool needs the command's process
   id. That is the child's: Valgrind's launcher execs the tool, which becomes the command. */
static int run(char **command, const char *output, struct valgrind_command *valgrind, struct error *error) {
  char log[64];
  pid_t child = fork();
  if (child < 0)
    return error_errno(error, command[0], "can't start a process");
  if (child == 0) {
    valgrind_command_add(valgrind, "--first=%d", (int)getpid());
    valgrind_command_set_environment(valgrind);
    valgrind_command_exec(valgrind, command[0], command + 1);
    _exit(126);
  }
  running = child;
  for (const int *number = (const int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0}; *number; number++)
    signal(*number, pass_on);
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  valgrind_command_log(valgrind, child, log, sizeof log);
  return judge(command[0], output, log, status, error);
}

/* Without an output, other processes' results are lost. */
static int simulate(char **command, const char *output, struct error *error) {
  struct valgrind_command valgrind = {.failed = false};
  char why[384];
  int status = -1;
  if (valgrind_find(&valgrind.valgrind, why, sizeof why) != 0)
    error_set(error, command[0], "%s", why);
  else if (valgrind_command_open(&valgrind, error) == 0) {
    const char *path = output ? output : valgrind.output;
    add_options(&valgrind, path);
    unlink(path);
    status = run(command, path, &valgrind, error);
    if (!output)
      print_file(path);
  }
  valgrind_command_close(&valgrind);
  return status;
}

static const struct observe_instead simulation = {wrong, simulate};
