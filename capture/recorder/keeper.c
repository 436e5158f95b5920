/* SPDX-License-Identifier: MIT */
#include "capture/recorder/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 250 };

struct keeping {
  const struct keeper_voice *voice;
  int line, pid;
  char setting[128];
};

/* Has the recorder ended, or asked us to end? Waits for that, at most wait_ms. */
static bool is_over(const struct keeping *keeping, int wait_ms) {
  struct pollfd line = {keeping->line, POLLIN, 0};
  return poll(&line, 1, wait_ms) == 1;
}

static bool is_wanted(void *context) {
  return !is_over(context, 0);
}

static void report_waiting(void *context) {
  const struct keeping *keeping = context;
  keeping->voice->waiting(keeping->pid);
}

/* Reads the collector's address up to its '\0'. False: the recorder ended before that. */
static bool take_setting(struct keeping *keeping) {
  size_t bytes = 0;
  while (bytes < sizeof keeping->setting) {
    if (TEMP_FAILURE_RETRY(read(keeping->line, keeping->setting + bytes, 1)) != 1)
      return false;
    if (keeping->setting[bytes++] == '\0')
      return true;
  }
  return false;
}

static int fail(const struct keeping *keeping, const struct error *error) {
  if (error->text[0])
    keeping->voice->failed(error);
  return 1;
}

static int keep(struct keeping *keeping, struct redirect_orders *orders) {
  struct redirection redirection;
  struct error error = {""};
  orders->setting = keeping->setting;
  orders->loading.wanted = is_wanted;
  orders->loading.tell_waiting = report_waiting;
  orders->loading.context = keeping;
  if (redirect_begin(&redirection, orders, &error) != 0)
    return fail(keeping, &error);
  keeping->voice->began(orders->pid, &redirection);
  while (!is_over(keeping, LOOK_MS))
    if (!redirect_keep(&redirection))
      break;
  uint32_t processes;
  int result = redirect_end(&redirection, &processes, &error);
  redirect_close(&redirection);
  if (result != 0)
    return fail(keeping, &error);
  keeping->voice->ended(orders->pid, processes);
  return 0;
}

static void ignore_signals(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    signal(signals[i], SIG_IGN);
}

int keeper_start(struct keeper *keeper, struct redirect_orders *orders, const struct keeper_voice *voice,
                 struct error *error) {
  int line[2];
  if (pipe2(line, O_CLOEXEC) != 0)
    return error_errno(error, "--attach", "cannot make a pipe");
  keeper->pid = fork();
  if (keeper->pid < 0)
    return error_errno(error, "--attach", "cannot start a process");
  if (keeper->pid == 0) {
    struct keeping keeping = {.voice = voice, .line = line[0], .pid = orders->pid};
    close(line[1]);
    ignore_signals();
    setsid();
    _exit(take_setting(&keeping) ? keep(&keeping, orders) : 0);
  }
  close(line[0]);
  keeper->line = line[1];
  return 0;
}

void keeper_begin(const struct keeper *keeper, const char *setting) {
  if (write(keeper->line, setting, strlen(setting) + 1) < 0)
    return; /* it has ended, which the collector will find */
}

void keeper_end(struct keeper *keeper) {
  if (keeper->line >= 0)
    close(keeper->line);
  keeper->line = -1;
}
