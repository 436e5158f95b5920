/* SPDX-License-Identifier: MIT */
#include "observe/observe.h"

#include "core/system/valgrind.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

const struct cli_option simulation_options[] = {
    {"caches", 0, "BYTES:WAYS,...", cli_text, offsetof(struct simulation, caches),
     .help = "the data caches, innermost first", .group = "simulation"},
    {"instruction-cache", 0, "BYTES:WAYS", cli_text, offsetof(struct simulation, instruction_cache),
     .help = "the cache of instructions", .group = "simulation"},
    {"data-only", 0, NULL, cli_flag, offsetof(struct simulation, data_only), .help = "no caches for instructions",
     .group = "simulation"},
    {"tlbs", 0, "ENTRIES:WAYS,...", cli_text, offsetof(struct simulation, tlbs), .help = "the TLBs, innermost first",
     .group = "simulation"},
    {"shift", 0, "PAGES", cli_text, offsetof(struct simulation, shift),
     .help = "OS pages that are mapped before the program's libraries", .group = "simulation"},
    {.name = NULL},
};

static pid_t running;

static void pass_on(int number) {
  kill(running, number);
}

/* Was the option given? Its field is a bool where it takes no value. */
static bool is_given(const struct simulation *simulation, const struct cli_option *option, const char **value) {
  const char *field = (const char *)simulation + option->field;
  *value = option->value ? *(const char *const *)field : *(const bool *)field ? "yes" : NULL;
  return *value;
}

bool simulation_has_options(const struct simulation *simulation) {
  const char *value;
  for (const struct cli_option *option = simulation_options; option->name; option++)
    if (is_given(simulation, option, &value))
      return true;
  return false;
}

static void add_options(struct valgrind_command *command, const struct simulation *simulation) {
  const char *value;
  valgrind_command_add_live(command, "simulate", true);
  valgrind_command_add(command, "--out-file=%s", simulation->output);
  for (const struct cli_option *option = simulation_options; option->name; option++)
    if (is_given(simulation, option, &value))
      valgrind_command_add(command, "--%s=%s", option->name, value);
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
