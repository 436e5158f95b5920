#include "capture/recorder/simulator.h"

#include "core/valgrind/complaint.h"
#include "core/valgrind/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OPTION_LIMIT = 16, OPTION_BYTES = 128 };

struct simulator {
  const struct collector_settings *settings;
  struct valgrind valgrind;
  char folder[64]; /* a log for each process */
};

int simulator_open(struct simulator **out, const struct collector_settings *settings, struct error *error) {
  char why[512];
  struct simulator *simulator = calloc(1, sizeof *simulator);
  if (!simulator)
    return error_set(error, "--accesses", "out of memory");
  simulator->settings = settings;
  snprintf(simulator->folder, sizeof simulator->folder, "/tmp/heaptape-record.XXXXXX");
  if (valgrind_find_tool(&simulator->valgrind, why, sizeof why) != 0)
    error_set(error, "--accesses", "%s", why);
  else if (!mkdtemp(simulator->folder))
    error_errno(error, simulator->folder, "cannot be made");
  else
    *out = simulator;
  if (*out)
    return 0;
  free(simulator);
  return -1;
}

/* The program by its path: Valgrind looks names up in PATH anew, where our environment may lead elsewhere. */
void simulator_become(const struct simulator *simulator, const char *path, char **arguments) {
  char options[OPTION_LIMIT][OPTION_BYTES];
  size_t words = 0, count = 0;
  while (arguments[words])
    words++;
  const char **all = calloc(words + OPTION_LIMIT + 2, sizeof *all);
  if (!all) {
    errno = ENOMEM;
    return;
  }
#define ADD(...)                                                                                                       \
  (snprintf(options[count], sizeof options[count], __VA_ARGS__), all[count + 1] = options[count], count++)
  all[0] = "valgrind";
  ADD("--tool=heaptape");
  ADD("--quiet");
  ADD("--mode=accesses");
  ADD("--filter=%llu", (unsigned long long)simulator->settings->filter_bytes);
  ADD("--trace-children=%s", simulator->settings->follow ? "yes" : "no");
  ADD("--vgdb=no");
  ADD("--sigill-diagnostics=yes");
  ADD("--log-file=%s/%%p", simulator->folder);
#undef ADD
  all[++count] = path;
  for (size_t word = 1; word < words; word++)
    all[++count] = arguments[word];
  setenv("VALGRIND_LIB", simulator->valgrind.library, 1);
  execv(simulator->valgrind.program, (char **)all);
  free(all);
}

enum { COMPLAINT_BYTES = 1024 };

static bool read_complaint(const struct simulator *simulator, int pid, char complaint[COMPLAINT_BYTES]) {
  char path[128];
  snprintf(path, sizeof path, "%s/%d", simulator->folder, pid);
  return valgrind_complaint(path, complaint, COMPLAINT_BYTES);
}

void simulator_each_complaint(const struct simulator *simulator, int but_pid,
                              void (*tell)(int pid, const char *words)) {
  char complaint[COMPLAINT_BYTES];
  DIR *folder = opendir(simulator->folder);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    int pid = atoi(entry->d_name); /* 0: "." and ".." */
    if (pid > 0 && pid != but_pid && read_complaint(simulator, pid, complaint))
      tell(pid, complaint);
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
  DIR *folder = opendir(simulator->folder);
  for (struct dirent *entry; folder && (entry = readdir(folder));)
    unlinkat(dirfd(folder), entry->d_name, 0);
  if (folder)
    closedir(folder);
  rmdir(simulator->folder);
  free(simulator);
}
