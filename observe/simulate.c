#include "observe/simulate.h"

#include "core/valgrind/complaint.h"
#include "core/valgrind/launch.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, OPTION_BYTES = 512, OPTION_LIMIT = 16 };

static int failure(const char *command, const char *what) {
  fprintf(stderr, "heaptape-observe: %s: %s\n", command, what);
  return EXIT_FAILED;
}

static pid_t running;

static void pass_on(int number) {
  kill(running, number);
}

/* The command's result is in OUTPUT and that of others in OUTPUT.PID: the tool needs to know which it is. Valgrind's
   launcher becomes the tool, and that the command, so this process's id is the command's. */
__attribute__((noreturn)) static void become_valgrind(const struct simulation *simulation,
                                                      const struct valgrind *valgrind, const char *log, size_t words) {
  char options[OPTION_LIMIT][OPTION_BYTES + 4096];
  const char **arguments = calloc(words + OPTION_LIMIT + 2, sizeof *arguments);
  if (!arguments)
    _exit(126);
  size_t count = 0, at = 0;
#define ADD(...)                                                                                                       \
  (snprintf(options[count], sizeof options[count], __VA_ARGS__), arguments[at++] = options[count], count++)
  arguments[at++] = "valgrind";
  ADD("--tool=heaptape");
  ADD("--quiet");
  ADD("--mode=simulate");
  ADD("--trace-children=yes");
  ADD("--vgdb=no");
  ADD("--sigill-diagnostics=yes");
  ADD("--log-file=%s.%%p", log);
  ADD("--out-file=%s", simulation->output);
  ADD("--first=%d", (int)getpid());
  if (simulation->caches)
    ADD("--caches=%s", simulation->caches);
  if (simulation->instruction_cache)
    ADD("--instruction-cache=%s", simulation->instruction_cache);
  if (simulation->tlbs)
    ADD("--tlbs=%s", simulation->tlbs);
  if (simulation->data_only)
    ADD("--data-only=yes");
  if (simulation->shift)
    ADD("--shift=%s", simulation->shift);
#undef ADD
  for (size_t word = 0; word < words; word++)
    arguments[at++] = simulation->command[word];
  setenv("VALGRIND_LIB", valgrind->library, 1);
  execv(valgrind->program, (char **)arguments);
  _exit(126);
}

static int judge(const struct simulation *simulation, const char *log, int status) {
  char complaint[1024], what[1200];
  bool complained = valgrind_complaint(log, complaint, sizeof complaint);
  bool written = access(simulation->output, R_OK) == 0;
  /* The launcher could not start the tool, and said so on stderr. */
  if (access(log, F_OK) != 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
    return WEXITSTATUS(status);
  if (written && !(complained && WIFSIGNALED(status)))
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (complained)
    snprintf(what, sizeof what, "Valgrind can't run it: %s", complaint);
  else if (WIFSIGNALED(status))
    snprintf(what, sizeof what, "no result: killed by signal %d (SIG%s)", WTERMSIG(status),
             sigabbrev_np(WTERMSIG(status)));
  else
    snprintf(what, sizeof what, "no result: Valgrind can't run it, or %s can't be written", simulation->output);
  return failure(simulation->command[0], what);
}

/* The logs of all processes, of which only the command's is read. */
static void remove_directory(const char *path) {
  DIR *directory = opendir(path);
  for (struct dirent *entry; directory && (entry = readdir(directory));)
    unlinkat(dirfd(directory), entry->d_name, 0);
  if (directory)
    closedir(directory);
  rmdir(path);
}

static void print_file(const char *path) {
  FILE *file = fopen(path, "r");
  char line[4096];
  while (file && fgets(line, sizeof line, file))
    fputs(line, stderr);
  if (file)
    fclose(file);
}

static int run(const struct simulation *simulation, const struct valgrind *valgrind, const char *directory) {
  char log[96], own_log[128];
  snprintf(log, sizeof log, "%s/log", directory);
  size_t words = 0;
  while (simulation->command[words])
    words++;
  pid_t child = fork();
  if (child < 0)
    return failure(simulation->command[0], strerror(errno));
  if (child == 0)
    become_valgrind(simulation, valgrind, log, words);
  running = child;
  for (const int *number = (const int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0}; *number; number++)
    signal(*number, pass_on);
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  snprintf(own_log, sizeof own_log, "%s.%d", log, (int)child);
  return judge(simulation, own_log, status);
}

int simulate(const struct simulation *simulation) {
  struct valgrind valgrind;
  char why[512], directory[] = "/tmp/heaptape-valgrind.XXXXXX";
  if (valgrind_find_tool(&valgrind, why, sizeof why) != 0)
    return failure(simulation->command[0], why);
  if ((simulation->output && strlen(simulation->output) >= 4000) ||
      (simulation->caches && strlen(simulation->caches) >= OPTION_BYTES) ||
      (simulation->shift && strlen(simulation->shift) >= OPTION_BYTES) ||
      (simulation->tlbs && strlen(simulation->tlbs) >= OPTION_BYTES) ||
      (simulation->instruction_cache && strlen(simulation->instruction_cache) >= OPTION_BYTES))
    return failure(simulation->command[0], "an option is too long");
  if (!mkdtemp(directory))
    return failure(directory, strerror(errno));
  char output[64];
  snprintf(output, sizeof output, "%s/result", directory);
  struct simulation own = *simulation;
  if (!own.output)
    own.output = output;
  unlink(own.output);
  int status = run(&own, &valgrind, directory);
  if (!simulation->output)
    print_file(output);
  remove_directory(directory);
  return status;
}
