/* SPDX-License-Identifier: MIT */
#include "capture/host/exec_calls.h"

#include "capture/host/process.h"
#include "capture/host/real/real.h"

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- notes --- */

static const char *value_of(char *const *environment, const char *key) {
  size_t length = strlen(key);
  for (char *const *entry = environment; entry && *entry; entry++)
    if (strncmp(*entry, key, length) == 0)
      return *entry + length;
  return NULL;
}

static uint32_t outlook_of(char *const *environment) {
  enum exec_outlook outlook = filters_outlook();
  if (outlook != EXEC_OPEN)
    return outlook;
  const char *preload = value_of(environment, "LD_PRELOAD=");
  return !preload || !*preload ? EXEC_NO_PRELOAD : strstr(preload, "libheaptape.so") ? EXEC_OPEN : EXEC_OTHER_PRELOAD;
}

/* As in struct exec_note. */
static int child_number(void) {
  if (!host_may(HOST_SELF))
    return -1;
  int pid = (int)syscall(SYS_getpid);
  return pid == process_own_number() ? 0 : pid;
}

static void put_path(char *to, const char *path, int fd) {
  static const char of_descriptor[] = "descriptor ";
  size_t length = path ? strlen(path) : 0;
  memset(to, 0, EXEC_PATH_BYTES);
  if (path) {
    memcpy(to, path + (length > EXEC_PATH_BYTES ? length - EXEC_PATH_BYTES : 0),
           length > EXEC_PATH_BYTES ? EXEC_PATH_BYTES : length);
    return;
  }
  memcpy(to, of_descriptor, sizeof of_descriptor);
  char digits[12], *digit = digits + sizeof digits - 1;
  *digit = '\0';
  for (unsigned left = (unsigned)fd;; left /= 10) {
    *--digit = (char)('0' + left % 10);
    if (left < 10)
      break;
  }
  memcpy(to + sizeof of_descriptor - 1, digit, strlen(digit));
}

static struct exec_note *note(const char *path, int fd, char *const *environment, int pid) {
  struct bank *bank = (struct bank *)host_state.bank;
  for (int i = 0; bank && i < EXEC_NOTES; i++) {
    struct exec_note *free_one = &bank->notes[i];
    uint32_t expected = EXEC_NOTE_FREE;
    if (!atomic_compare_exchange_strong(&free_one->state, &expected, EXEC_NOTE_FILLING))
      continue;
    free_one->pid = pid;
    free_one->outlook = outlook_of(environment);
    put_path(free_one->path, path, fd);
    atomic_store(&free_one->state, EXEC_NOTE_STANDS);
    atomic_fetch_add(&bank->noted, 1);
    return free_one;
  }
  return NULL;
}

struct exec_note *exec_begins(const char *path, int fd, char *const *environment) {
  return host_state.bank ? note(path, fd, environment, child_number()) : NULL;
}

void exec_failed(struct exec_note *taken_back) {
  uint32_t expected = EXEC_NOTE_STANDS;
  if (taken_back)
    atomic_compare_exchange_strong(&taken_back->state, &expected, EXEC_NOTE_FREE);
}

/* --- entry points --- */

#define REAL_FUNCTIONS(FUNCTION)                                                                                       \
  FUNCTION(execve, int, (const char *, char *const *, char *const *))                                                  \
  FUNCTION(execv, int, (const char *, char *const *))                                                                  \
  FUNCTION(execvp, int, (const char *, char *const *))                                                                 \
  FUNCTION(execvpe, int, (const char *, char *const *, char *const *))                                                 \
  FUNCTION(fexecve, int, (int, char *const *, char *const *))                                                          \
  FUNCTION(execveat, int, (int, const char *, char *const *, char *const *, int))                                      \
  FUNCTION(system, int, (const char *))                                                                                \
  FUNCTION(popen, void *, (const char *, const char *))                                                                \
  FUNCTION(posix_spawn, int,                                                                                           \
           (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,       \
            char *const *))                                                                                            \
  FUNCTION(posix_spawnp, int,                                                                                          \
           (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,       \
            char *const *))

/* The union turns the data pointer of a look-up into a function pointer without a cast that ISO C forbids. */
#define FUNCTION(name, result, parameters)                                                                             \
  union {                                                                                                              \
    void *_Atomic data;                                                                                                \
    result(*code) parameters;                                                                                          \
  } name;
static struct { REAL_FUNCTIONS(FUNCTION) } real_calls_of;
#undef FUNCTION

void exec_calls_resolve(void) {
#define FUNCTION(name, result, parameters) {#name, NULL},
  struct symbols_wanted wanted[] = {REAL_FUNCTIONS(FUNCTION)}, *at = wanted;
#undef FUNCTION
  symbols_next_all(wanted, sizeof wanted / sizeof *wanted);
#define FUNCTION(name, result, parameters) real_calls_of.name.data = at++->code;
  REAL_FUNCTIONS(FUNCTION)
#undef FUNCTION
}

/* Under names of our own, as libc's headers say of the parameters what no caller must keep to. */
#define ENTRY(name, parameters)                                                                                        \
  __attribute__((visibility("default"))) int entry_##name parameters __asm__(#name);                                   \
  int entry_##name parameters

/* Calls the real function, between a note and its end. A C library that lacks the function has no callers of it. */
#define MAKE(name, path, fd, environment, ...)                                                                         \
  struct exec_note *noted = exec_begins(path, fd, environment);                                                        \
  if (!real_calls_of.name.data)                                                                                        \
    exec_calls_resolve();                                                                                              \
  int result = real_calls_of.name.data ? real_calls_of.name.code(__VA_ARGS__) : (errno = ENOSYS, -1);                  \
  exec_failed(noted);                                                                                                  \
  return result

ENTRY(execve, (const char *path, char *const words[], char *const environment[])) {
  MAKE(execve, path, -1, environment, path, words, environment);
}
ENTRY(execv, (const char *path, char *const words[])) {
  MAKE(execv, path, -1, environ, path, words);
}
ENTRY(execvp, (const char *file, char *const words[])) {
  MAKE(execvp, file, -1, environ, file, words);
}
ENTRY(execvpe, (const char *file, char *const words[], char *const environment[])) {
  MAKE(execvpe, file, -1, environment, file, words, environment);
}
ENTRY(fexecve, (int fd, char *const words[], char *const environment[])) {
  MAKE(fexecve, NULL, fd, environment, fd, words, environment);
}
ENTRY(execveat, (int fd, const char *path, char *const words[], char *const environment[], int flags)) {
  MAKE(execveat, path && *path ? path : NULL, fd, environment, fd, path, words, environment, flags);
}

/* The words of a call that has them as arguments, in an array on the stack, as the C libraries do. environment: where
   the one behind them goes, or NULL. */
static size_t count_words(va_list list) {
  size_t count = 1;
  while (va_arg(list, char *))
    count++;
  return count + 1;
}
#define WORDS(words, first)                                                                                            \
  va_list list;                                                                                                        \
  va_start(list, first);                                                                                               \
  char *words[first ? count_words(list) : 1];                                                                          \
  va_end(list);                                                                                                        \
  va_start(list, first);                                                                                               \
  words[0] = (char *)(uintptr_t)first;                                                                                 \
  for (size_t i = 1; words[i - 1]; i++)                                                                                \
    words[i] = va_arg(list, char *);

ENTRY(execl, (const char *path, const char *first, ...)) {
  WORDS(words, first)
  va_end(list);
  return entry_execv(path, words);
}
ENTRY(execlp, (const char *file, const char *first, ...)) {
  WORDS(words, first)
  va_end(list);
  return entry_execvp(file, words);
}
ENTRY(execle, (const char *path, const char *first, ...)) {
  WORDS(words, first)
  char *const *environment = va_arg(list, char *const *);
  va_end(list);
  return entry_execve(path, words, environment);
}

/* The child's number is known only afterwards. It may have attached meanwhile: the collector knows. */
#define SPAWN(name)                                                                                                    \
  pid_t own_child = 0, *number = child ? child : &own_child;                                                           \
  if (!real_calls_of.name.data)                                                                                        \
    exec_calls_resolve();                                                                                              \
  if (!real_calls_of.name.data)                                                                                        \
    return ENOSYS;                                                                                                     \
  int result = real_calls_of.name.code(number, path, actions, attributes, words, environment);                         \
  if (result == 0)                                                                                                     \
    note(path, -1, environment, *number);                                                                              \
  return result

ENTRY(posix_spawn, (pid_t * child, const char *path, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes, char *const words[], char *const environment[])) {
  SPAWN(posix_spawn);
}
ENTRY(posix_spawnp, (pid_t * child, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const words[], char *const environment[])) {
  SPAWN(posix_spawnp);
}

/* Their shell attaches as a rule, and is not executed by a function of ours. */
static void note_shell(void) {
  if (filters_outlook() != EXEC_OPEN)
    note("/bin/sh", -1, environ, EXEC_CERTAIN);
}

ENTRY(system, (const char *command)) {
  if (!real_calls_of.system.data)
    exec_calls_resolve();
  if (command)
    note_shell();
  return real_calls_of.system.data ? real_calls_of.system.code(command) : -1;
}

__attribute__((visibility("default"))) void *entry_popen(const char *command, const char *mode) __asm__("popen");
void *entry_popen(const char *command, const char *mode) {
  if (!real_calls_of.popen.data)
    exec_calls_resolve();
  note_shell();
  return real_calls_of.popen.data ? real_calls_of.popen.code(command, mode) : NULL;
}
