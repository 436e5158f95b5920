/* SPDX-License-Identifier: MIT */
#include "capture/recorder/restorer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { POLL_MS = 250 };

struct restoring {
  const struct restorer_callbacks *callbacks;
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
  restoring->callbacks->waiting(restoring->pid);
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

static int fail(const struct restoring *restoring, const struct error *error) {
  if (error->text[0])
    restoring->callbacks->failed(error);
  return 1;
}

static int keep(struct restoring *restoring, struct redirect_orders *orders) {
  struct redirection redirection;
  struct error error = {""};
  orders->setting = restoring->setting;
  orders->loading.should_continue = should_continue;
  orders->loading.report_waiting = report_waiting;
  orders->loading.context = restoring;
  if (redirect_begin(&redirection, orders, &error) != 0)
    return fail(restoring, &error);
  restoring->callbacks->began(orders->pid, &redirection);
  while (!is_over(restoring, POLL_MS))
    if (!redirect_keep(&redirection))
      break;
  uint32_t processes;
  int result = redirect_end(&redirection, &processes, &error);
  redirect_close(&redirection);
  if (result != 0)
    return fail(restoring, &error);
  restoring->callbacks->ended(orders->pid, processes);
  return 0;
}

static void ignore_signals(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    signal(signals[i], SIG_IGN);
}

int restorer_start(struct restorer *restorer, struct redirect_orders *orders,
                   const struct restorer_callbacks *callbacks, struct error *error) {
  int line[2];
  if (pipe2(line, O_CLOEXEC) != 0)
    return error_errno(error, "--attach", "cannot make a pipe");
  restorer->pid = fork();
  if (restorer->pid < 0)
    return error_errno(error, "--attach", "cannot start a process");
  if (restorer->pid == 0) {
    struct restoring restoring = {.callbacks = callbacks, .line = line[0], .pid = orders->pid};
    close(line[1]);
    ignore_signals();
    setsid();
    _exit(take_setting(&restoring) ? keep(&restoring, orders) : 0);
  }
  close(line[0]);
  restorer->line = line[1];
  return 0;
}

void restorer_begin(const struct restorer *restorer, const char *setting) {
  if (write(restorer->line, setting, strlen(setting) + 1) < 0)
    return; /* it has ended, which the collector will find */
}

void restorer_end(struct restorer *restorer) {
  if (restorer->line >= 0)
    close(restorer->line);
  restorer->line = -1;
}
