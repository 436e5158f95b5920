/* SPDX-License-Identifier: MIT */
#include "capture/host/kernel/exec_calls.h"

#include "capture/host/process.h"
#include "capture/host/real/real.h"
#include "capture/host/room.h"
#include "capture/host/setting.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- the caller's memory --- */

enum { PAGE = 4096 };

/* May the program read there? Else its call fails, where ours would end it. *known: the number of a page of which it
   is known. */
static bool is_readable(const void *at, uintptr_t *known) {
  enum { NOTHING = 3 }; /* the kernel reads the mask, and then refuses */
  uintptr_t page = (uintptr_t)at / PAGE;
  if (page == *known || !host_may(HOST_SELF))
    return true;
  int error = errno;
  syscall(SYS_rt_sigprocmask, NOTHING, (uintptr_t)at & -sizeof(uint64_t), NULL, sizeof(uint64_t));
  bool readable = errno != EFAULT;
  errno = error;
  if (readable)
    *known = page;
  return readable;
}

static bool has_key(const char *entry, const char *key) {
  return strncmp(entry, key, strlen(key)) == 0;
}

/* --- our library in LD_PRELOAD --- */

static const char preload_key[] = "LD_PRELOAD=", own_name[] = "/libheaptape";

/* Bytes of the list's next element. */
static size_t element_bytes(const char *list) {
  size_t bytes = 0;
  while (list[bytes] && list[bytes] != ':' && list[bytes] != ' ')
    bytes++;
  return bytes;
}

static bool is_own(const char *element, size_t bytes) {
  const char *name = strstr(element, own_name);
  return name && name < element + bytes;
}

/* Would the loader open our library? As a loader does it, which finds no root directory but the process's. */
static enum exec_outlook library_outlook(const char *preload) {
  char path[1024];
  const char *own = strstr(preload, own_name);
  while (own > preload && own[-1] != ':' && own[-1] != ' ')
    own--;
  size_t bytes = element_bytes(own);
  if (bytes >= sizeof path || !host_may(HOST_FILES))
    return EXEC_OPEN;
  memcpy(path, own, bytes);
  path[bytes] = '\0';
  int error = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), why = errno;
  if (fd >= 0)
    syscall(SYS_close, fd);
  errno = error;
  if (fd < 0 && (why == ENOENT || why == ENOTDIR))
    return EXEC_NO_LIBRARY;
  return fd < 0 && (why == EACCES || why == EPERM) ? EXEC_NO_RIGHT : EXEC_OPEN;
}

/* The number of entries, with the last, which is NULL; 0: they can't be read. *preload: the value of LD_PRELOAD, or
   NULL. */
static size_t entries_of(char *const *environment, const char **preload) {
  uintptr_t known = UINTPTR_MAX, known_text = UINTPTR_MAX;
  *preload = NULL;
  for (size_t count = 0; environment; count++) {
    if (!is_readable(environment + count, &known))
      return 0;
    const char *entry = environment[count];
    if (!entry)
      return count + 1;
    if (!is_readable(entry, &known_text))
      return 0;
    if (!*preload && has_key(entry, preload_key))
      *preload = entry + sizeof preload_key - 1;
  }
  return 0;
}

static uint32_t outlook_of(char *const *environment) {
  enum exec_outlook outlook = filters_outlook();
  const char *preload;
  if (outlook != EXEC_OPEN)
    return outlook;
  if (!entries_of(environment, &preload) || !preload || !*preload)
    return EXEC_NO_PRELOAD;
  if (!strstr(preload, own_name))
    return EXEC_OTHER_PRELOAD;
  outlook = library_outlook(preload);
  if (outlook == EXEC_OPEN && host_may(HOST_FILES) && setting_is_cut_off())
    return EXEC_SANDBOXED;
  return outlook == EXEC_OPEN && room_is_low() ? EXEC_LIMITED : outlook;
}

/* Is the library to be left out of that LD_PRELOAD? */
static bool is_withheld(const char *preload) {
  return preload && strstr(preload, own_name) && library_outlook(preload) != EXEC_OPEN;
}

struct exec_kept exec_kept_of(char *const *environment) {
  enum { ENTRIES_MOST = 2048 }; /* on the caller's stack */
  const char *preload;
  size_t entries = entries_of(environment, &preload);
  if (entries > ENTRIES_MOST || !is_withheld(preload))
    return (struct exec_kept){0, 0};
  return (struct exec_kept){entries, sizeof preload_key + strlen(preload)};
}

/* Copies the list without our libraries; returns the end of the copy. */
static char *copy_others(char *to, const char *list) {
  char *end = to;
  while (*list) {
    size_t bytes = element_bytes(list);
    if (bytes && !is_own(list, bytes)) {
      *end = ':';
      end += end > to;
      memcpy(end, list, bytes);
      end += bytes;
    }
    list += bytes + (list[bytes] != '\0');
  }
  *end = '\0';
  return end;
}

char *const *exec_passed(char *const *environment, struct exec_kept kept, char **entries, char *preload) {
  if (!kept.entries)
    return environment;
  char **first = entries, *value = preload + sizeof preload_key - 1;
  bool is_first = true;
  memcpy(preload, preload_key, sizeof preload_key);
  for (; *environment; environment++) {
    if (!has_key(*environment, preload_key))
      *entries++ = *environment;
    else if (is_first && copy_others(value, *environment + sizeof preload_key - 1) > value)
      *entries++ = preload;
    is_first &= !has_key(*environment, preload_key);
  }
  *entries = NULL;
  return first;
}

/* --- notes --- */

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
  message_put_number(to + sizeof of_descriptor - 1, (uint32_t)fd);
}

static uint32_t asked_now(void) {
  return host_state.tables ? atomic_load(&host_state.tables->control.asked) : 0;
}

/* fd: used where there is no path. asked: before the call. */
static struct exec_note *note(const char *path, int fd, char *const *environment, int pid, uint32_t asked) {
  struct bank *bank = (struct bank *)host_state.bank;
  for (int i = 0; bank && i < EXEC_NOTES; i++) {
    struct exec_note *free_one = &bank->notes[i];
    uint32_t expected = EXEC_NOTE_FREE;
    if (!atomic_compare_exchange_strong(&free_one->state, &expected, EXEC_NOTE_FILLING))
      continue;
    free_one->pid = pid;
    free_one->asked = asked;
    free_one->outlook = outlook_of(environment);
    put_path(free_one->path, path, fd);
    atomic_store(&free_one->state, EXEC_NOTE_STANDS);
    atomic_fetch_add(&bank->noted, 1);
    if (i >= EXEC_NOTES / 2)
      host_wake_collector();
    return free_one;
  }
  if (bank)
    atomic_fetch_add(&bank->notes_lost, 1);
  return NULL;
}

struct exec_note *exec_begins(const char *path, int fd, char *const *environment) {
  uintptr_t known = UINTPTR_MAX;
  if (!host_state.bank || (path && !is_readable(path, &known)))
    return NULL;
  return note(path && *path ? path : NULL, fd, environment, child_number(), asked_now());
}

void exec_failed(struct exec_note *taken_back) {
  uint32_t expected = EXEC_NOTE_STANDS;
  if (taken_back)
    atomic_compare_exchange_strong(&taken_back->state, &expected, EXEC_NOTE_FREE);
}

/* --- entry points --- */

#define REAL_FUNCTIONS(FUNCTION)                                                                                       \
  FUNCTION(execve, int, (const char *, char *const *, char *const *))                                                  \
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

/* `passed`: what is passed of an environment. */
#define PASS(environment)                                                                                              \
  struct exec_kept kept = exec_kept_of(environment);                                                                   \
  char *entries[kept.entries + 1], preload[kept.bytes + 1];                                                            \
  char *const *passed = exec_passed(environment, kept, entries, preload)

/* Calls the real function, between a note and its end. A C library that lacks the function has no callers of it. */
#define MAKE(name, path, fd, environment, ...)                                                                         \
  struct exec_note *noted = exec_begins(path, fd, environment);                                                        \
  PASS(environment);                                                                                                   \
  if (!real_calls_of.name.data)                                                                                        \
    exec_calls_resolve();                                                                                              \
  int result = real_calls_of.name.data ? real_calls_of.name.code(__VA_ARGS__) : (errno = ENOSYS, -1);                  \
  exec_failed(noted);                                                                                                  \
  return result

ENTRY(execve, (const char *path, char *const words[], char *const environment[])) {
  MAKE(execve, path, -1, environment, path, words, passed);
}
ENTRY(execv, (const char *path, char *const words[])) {
  return entry_execve(path, words, environ);
}
ENTRY(execvpe, (const char *file, char *const words[], char *const environment[])) {
  MAKE(execvpe, file, -1, environment, file, words, passed);
}
ENTRY(execvp, (const char *file, char *const words[])) {
  return entry_execvpe(file, words, environ);
}
ENTRY(fexecve, (int fd, char *const words[], char *const environment[])) {
  MAKE(fexecve, NULL, fd, environment, fd, words, passed);
}
ENTRY(execveat, (int fd, const char *path, char *const words[], char *const environment[], int flags)) {
  MAKE(execveat, path, fd, environment, fd, path, words, passed, flags);
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
  uint32_t asked = asked_now();                                                                                        \
  PASS(environment);                                                                                                   \
  int result = real_calls_of.name.code(number, path, actions, attributes, words, passed);                              \
  if (result == 0)                                                                                                     \
    note(path, -1, environment, *number, asked);                                                                       \
  return result

ENTRY(posix_spawn, (pid_t * child, const char *path, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes, char *const words[], char *const environment[])) {
  SPAWN(posix_spawn);
}
ENTRY(posix_spawnp, (pid_t * child, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const words[], char *const environment[])) {
  SPAWN(posix_spawnp);
}

/* The value of LD_PRELOAD where our library is to be left out of it; else NULL. */
static char *withheld_preload(void) {
  const char *preload;
  return entries_of(environ, &preload) && is_withheld(preload) ? (char *)(uintptr_t)preload : NULL;
}

static size_t bytes_of(const char *preload) {
  return preload ? strlen(preload) + 1 : 1;
}

/* Their shell attaches as a rule, and is not executed by a function of ours. They take the environment from where it
   is, so that our library is left out there, while they run. */
static void shell_begins(char *preload, char *before) {
  if (preload || filters_outlook() != EXEC_OPEN)
    note("/bin/sh", -1, environ, EXEC_CERTAIN, asked_now());
  if (preload) {
    memcpy(before, preload, bytes_of(preload));
    copy_others(preload, before);
  }
}

static void shell_ends(char *preload, const char *before) {
  if (preload)
    memcpy(preload, before, bytes_of(before));
}

ENTRY(system, (const char *command)) {
  if (!real_calls_of.system.data)
    exec_calls_resolve();
  if (!real_calls_of.system.data)
    return -1;
  char *preload = command ? withheld_preload() : NULL, before[bytes_of(preload)];
  if (command)
    shell_begins(preload, before);
  int result = real_calls_of.system.code(command);
  shell_ends(preload, before);
  return result;
}

__attribute__((visibility("default"))) void *entry_popen(const char *command, const char *mode) __asm__("popen");
void *entry_popen(const char *command, const char *mode) {
  if (!real_calls_of.popen.data)
    exec_calls_resolve();
  char *preload = withheld_preload(), before[bytes_of(preload)];
  shell_begins(preload, before);
  void *result = real_calls_of.popen.data ? real_calls_of.popen.code(command, mode) : NULL;
  shell_ends(preload, before);
  return result;
}
