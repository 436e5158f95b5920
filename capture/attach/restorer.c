/* SPDX-License-Identifier: MIT */
#include "capture/attach/redirect.h"
#include "capture/attach/target.h"
#include "capture/recorder/command/preflight.h"
#include "capture/recorder/command/report.h"
#include "capture/recorder/command/unblocked.h"
#include "capture/recorder/ways.h"
#include "core/base/os.h"
#include "core/command/diagnostics.h"
#include "core/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void report_restorer_began(int pid, const struct redirection *redirection) {
  if (diagnostics.quiet)
    return;
  char functions[64] = "";
  if (redirection->functions)
    snprintf(functions, sizeof functions, "%u functions of an allocator in it, ", redirection->functions);
  fprintf(stderr, "heaptape: process %d: recording begins: %s%u references in %u objects, held for %.1f ms at most\n",
          pid, functions, redirection->redirected, redirection->objects,
          (double)redirection->tracee.longest_hold_ns / 1e6);
  char why[400];
  linked_patches_complain(&redirection->linked.patches, why, sizeof why);
  if (why[0])
    diagnostics_warning(RECORD, "process %d: not recorded: %s", pid, why);
}

static void report_restorer_ended(int pid, uint32_t processes) {
  if (processes && !diagnostics.quiet)
    fprintf(stderr, "heaptape: process %d: everything is put back%s\n", pid,
            processes > 1 ? ", in its fork children too" : "");
}

enum { POLL_MS = 250 };

struct restoring {
  int line, pid;
  char setting[128];
};

/* Has the recorder ended, or asked us to end? Waits for that, at most wait_ms. */
static bool is_over(const struct restoring *restoring, int wait_ms) {
  struct pollfd line = {restoring->line, POLLIN, 0};
  return poll(&line, 1, wait_ms) == 1;
}

static bool should_continue(void *context) {
  return !is_over(context, 0);
}

static void report_waiting(void *context) {
  const struct restoring *restoring = context;
  diagnostics_warning(RECORD, "process %d: no thread has called malloc at a safe moment yet: waiting for one",
                      restoring->pid);
}

/* Reads the collector's address up to its '\0'. False: the recorder ended before that. */
static bool take_setting(struct restoring *restoring) {
  size_t bytes = 0;
  while (bytes < sizeof restoring->setting) {
    if (TEMP_FAILURE_RETRY(read(restoring->line, restoring->setting + bytes, 1)) != 1)
      return false;
    if (restoring->setting[bytes++] == '\0')
      return true;
  }
  return false;
}

static int fail_restorer(const struct error *error) {
  if (error->text[0])
    report_error(error);
  return 1;
}

static int keep(struct restoring *restoring, struct redirect_orders *orders) {
  struct redirection redirection;
  struct error error = {0};
  orders->setting = restoring->setting;
  orders->loading.should_continue = should_continue;
  orders->loading.report_waiting = report_waiting;
  orders->loading.context = restoring;
  if (redirect_begin(&redirection, orders, &error) != 0)
    return fail_restorer(&error);
  report_restorer_began(orders->pid, &redirection);
  while (!is_over(restoring, POLL_MS))
    if (!redirect_keep(&redirection))
      break;
  uint32_t processes;
  int result = redirect_end(&redirection, &processes, &error);
  redirect_close(&redirection);
  if (result != 0)
    return fail_restorer(&error);
  report_restorer_ended(orders->pid, processes);
  return 0;
}

static void ignore_signals(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    signal(signals[i], SIG_IGN);
}

static int restorer_start(struct restorer *restorer, const char *library, int output_fd, struct error *error) {
  int line[2];
  if (pipe2(line, O_CLOEXEC) != 0)
    return error_errno(error, "--attach", "cannot make a pipe");
  restorer->pid = fork();
  if (restorer->pid < 0)
    return error_errno(error, "--attach", "cannot start a process");
  if (restorer->pid == 0) {
    struct redirect_orders orders = {.pid = restorer->target, .loading = {.library = library}};
    struct restoring restoring = {.line = line[0], .pid = restorer->target};
    close(line[1]);
    close(output_fd);
    ignore_signals();
    setsid();
    unblocked_begin();
    int status = take_setting(&restoring) ? keep(&restoring, &orders) : 0;
    unblocked_end();
    _exit(status);
  }
  close(line[0]);
  restorer->line = line[1];
  return 0;
}

static bool restorer_end(struct restorer *restorer, const char *setting, int reaped_status, bool recorded) {
  struct error error = {0};
  int status;
  uint32_t processes;
  close(restorer->line);
  bool reaped = waitpid(restorer->pid, &status, 0) != restorer->pid;
  if (reaped)
    status = reaped_status;
  bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (reaped && !process_is_reaped(restorer->target_fd) &&
      redirect_undo(restorer->target, setting, &processes, &error) != 0 && error.text[0] &&
      !process_is_reaped(restorer->target_fd) && WIFSIGNALED(status))
    report_error(&error);
  os_close(restorer->target_fd);
  return done || (reaped && recorded);
}

static int prepare(int pid, char *library, struct error *error) {
  return target_check(pid, error) != 0 || preflight_library(REDIRECT_LIBRARY, library, error) != 0 ? -1 : 0;
}

static const struct attach_way way = {prepare, target_socket, restorer_start, restorer_end};
REGISTER_WAY(attach, way);
