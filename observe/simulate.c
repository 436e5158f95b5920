/* SPDX-License-Identifier: MIT */
#include "observe/observe.h"

#include "core/system/valgrind.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t running;

static void pass_on(int number) {
  kill(running, number);
}

static void add_options(struct valgrind_command *command, const struct simulation *simulation) {
  valgrind_command_add_live(command, "simulate", true);
  valgrind_command_add(command, "--out-file=%s", simulation->output);
  if (simulation->caches)
    valgrind_command_add(command, "--caches=%s", simulation->caches);
  if (simulation->instruction_cache)
    valgrind_command_add(command, "--instruction-cache=%s", simulation->instruction_cache);
  if (simulation->tlbs)
    valgrind_command_add(command, "--tlbs=%s", simulation->tlbs);
  if (simulation->data_only)
    valgrind_command_add(command, "--data-only=yes");
  if (simulation->core)
    valgrind_command_add(command, "--core=%s", simulation->core);
  if (simulation->latencies)
    valgrind_command_add(command, "--latencies=%s", simulation->latencies);
  if (simulation->tlb_latencies)
    valgrind_command_add(command, "--tlb-latencies=%s", simulation->tlb_latencies);
  if (simulation->shift)
    valgrind_command_add(command, "--shift=%s", simulation->shift);
}

static int judge(const struct simulation *simulation, const char *log, int status, struct error *error) {
  char complaint[1024];
  const char *name = simulation->command[0];
  bool complained = valgrind_complaint(log, complaint, sizeof complaint);
  bool written = access(simulation->output, R_OK) == 0;
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
  return error_set(error, name, "no result: Valgrind can't run it, or %s can't be written", simulation->output);
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
static int run(const struct simulation *simulation, struct valgrind_command *command, struct error *error) {
  char log[64];
  pid_t child = fork();
  if (child < 0)
    return error_errno(error, simulation->command[0], "can't start a process");
  if (child == 0) {
    valgrind_command_add(command, "--first=%d", (int)getpid());
    valgrind_command_set_environment(command);
    valgrind_command_exec(command, simulation->command[0], simulation->command + 1);
    _exit(126);
  }
  running = child;
  for (const int *number = (const int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0}; *number; number++)
    signal(*number, pass_on);
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  valgrind_command_log(command, child, log, sizeof log);
  return judge(simulation, log, status, error);
}

int simulate(const struct simulation *simulation, struct error *error) {
  struct valgrind_command command = {.failed = false};
  struct simulation own = *simulation;
  char why[384];
  int status = -1;
  if (valgrind_find(&command.valgrind, why, sizeof why) != 0)
    error_set(error, simulation->command[0], "%s", why);
  else if (valgrind_command_open(&command, error) == 0) {
    if (!own.output)
      own.output = command.output;
    add_options(&command, &own);
    unlink(own.output);
    status = run(&own, &command, error);
    if (!simulation->output)
      print_file(own.output);
  }
  valgrind_command_close(&command);
  return status;
}
