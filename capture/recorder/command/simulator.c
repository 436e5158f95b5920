/* SPDX-License-Identifier: MIT */
#include "capture/recorder/command/simulator.h"

#include "capture/recorder/command/beside.h"
#include "core/system/valgrind.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simulator {
  const struct collector_settings *settings;
  struct valgrind_command command;
};

/* The tool gets the list in a file, which it reads in each process. */
static int add_functions(struct valgrind_command *command, const struct linked_list *functions, bool follow,
                         struct error *error) {
  char path[sizeof command->directory + 16];
  snprintf(path, sizeof path, "%s/functions", command->directory);
  FILE *file = fopen(path, "we");
  bool written = file && fwrite(functions, sizeof *functions, 1, file) == 1;
  if (!file || (fclose(file) != 0 && written) || !written)
    return error_errno(error, path, "cannot be written");
  valgrind_command_add_live(command, "calls", follow);
  valgrind_command_add(command, "--functions=%s", path);
  return 0;
}

int simulator_open(struct simulator **out, const struct collector_settings *settings,
                   const struct linked_list *functions, struct error *error) {
  const char *what = functions->count ? "a static program" : "--accesses";
  char why[384];
  struct simulator *simulator = calloc(1, sizeof *simulator);
  if (!simulator)
    return error_set(error, what, "out of memory");
  simulator->settings = settings;
  struct valgrind_command *command = &simulator->command;
  int result = valgrind_find(&command->valgrind, why, sizeof why);
  if (result != 0)
    error_set(error, what, "%s", why);
  else
    result = valgrind_command_open(command, error);
  if (result == 0 && functions->count)
    result = add_functions(command, functions, settings->follow, error);
  if (result != 0) {
    simulator_close(simulator);
    return -1;
  }
  if (!functions->count)
    beside_calls()->set_mode(command, settings);
  *out = simulator;
  return 0;
}

/* The program is given by path: Valgrind would search its name in PATH again, where our environment may lead
   elsewhere. */
void simulator_become(struct simulator *simulator, const char *path, char **arguments) {
  valgrind_command_set_environment(&simulator->command);
  valgrind_command_exec(&simulator->command, path, arguments + 1);
}

enum { COMPLAINT_BYTES = 1024 };

static bool read_complaint(const struct simulator *simulator, int pid, char complaint[COMPLAINT_BYTES]) {
  char path[sizeof simulator->command.directory + 32];
  valgrind_command_log(&simulator->command, pid, path, sizeof path);
  return valgrind_complaint(path, complaint, COMPLAINT_BYTES);
}

void simulator_each_complaint(const struct simulator *simulator, int but_pid,
                              void (*report)(int pid, const char *words)) {
  char complaint[COMPLAINT_BYTES];
  DIR *folder = opendir(simulator->command.directory);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    const char *number = strrchr(entry->d_name, '.');
    int pid = atoi(number ? number + 1 : entry->d_name); /* 0: another file */
    if (pid > 0 && pid != but_pid && read_complaint(simulator, pid, complaint))
      report(pid, complaint);
  }
  if (folder)
    closedir(folder);
}

bool simulator_complained(const struct simulator *simulator, int pid, struct error *error) {
  char complaint[COMPLAINT_BYTES];
  if (!read_complaint(simulator, pid, complaint))
    return false;
  error_set(error, simulator->settings->name, "Valgrind can't run it: %s", complaint);
  return true;
}

void simulator_close(struct simulator *simulator) {
  if (!simulator)
    return;
  valgrind_command_close(&simulator->command);
  free(simulator);
}
