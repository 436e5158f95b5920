#include "capture/recorder/simulator.h"

#include "core/valgrind/command.h"
#include "core/valgrind/complaint.h"

#include <stdlib.h>

struct simulator {
  const struct collector_settings *settings;
  struct valgrind_command command;
};

int simulator_open(struct simulator **out, const struct collector_settings *settings, struct error *error) {
  char why[384];
  struct simulator *simulator = calloc(1, sizeof *simulator);
  if (!simulator)
    return error_set(error, "--accesses", "out of memory");
  simulator->settings = settings;
  struct valgrind_command *command = &simulator->command;
  int result = valgrind_find_tool(&command->valgrind, why, sizeof why);
  if (result != 0)
    error_set(error, "--accesses", "%s", why);
  else
    result = valgrind_command_open(command, error);
  if (result != 0) {
    simulator_close(simulator);
    return -1;
  }
  valgrind_command_add_live(command, "accesses", settings->follow);
  valgrind_command_add(command, "--filter=%llu", (unsigned long long)settings->filter_bytes);
  *out = simulator;
  return 0;
}

/* The program by its path: Valgrind looks names up in PATH anew, where our environment may lead elsewhere. */
void simulator_become(struct simulator *simulator, const char *path, char **arguments) {
  valgrind_command_set_environment(&simulator->command);
  valgrind_command_exec(&simulator->command, path, arguments + 1);
}

bool simulator_complained(const struct simulator *simulator, int pid, struct error *error) {
  char path[64], complaint[1024];
  valgrind_command_log(&simulator->command, pid, path, sizeof path);
  if (!valgrind_complaint(path, complaint, sizeof complaint))
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
