/* SPDX-License-Identifier: MIT */
#include "allocators/common/base.h"

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROC_BYTES_MAX = 16384 };

/* Mapped when needed, which is seldom: in .bss it would separate variables that otherwise share an OS page. */
static char *proc_environment;
static size_t proc_bytes;

/* Returns the value in an entry NAME=VALUE; NULL: another variable's. */
static const char *value_in(const char *entry, const char *name) {
  size_t length = strlen(name);
  return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

static void read_proc(void) {
  int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  void *mapped = mmap(NULL, PROC_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) {
    proc_environment = mapped;
    ssize_t got;
    while (proc_bytes < PROC_BYTES_MAX - 1 &&
           (got = read(fd, proc_environment + proc_bytes, PROC_BYTES_MAX - 1 - proc_bytes)) > 0)
      proc_bytes += (size_t)got;
  }
  close(fd);
}

/* The first call may come from the dynamic linker, before libc has the environment: then reads the kernel's copy. */
static const char *from_proc(const char *name) {
  if (proc_bytes == 0)
    read_proc();
  for (const char *entry = proc_environment; entry < proc_environment + proc_bytes; entry += strlen(entry) + 1) {
    const char *value = value_in(entry, name);
    if (value)
      return value;
  }
  return NULL;
}

const char *environment_value(const char *name) {
  if (getauxval(AT_SECURE))
    return NULL;
  if (!environ)
    return from_proc(name);
  for (char **entry = environ; *entry; entry++) {
    const char *value = value_in(*entry, name);
    if (value)
      return value;
  }
  return NULL;
}

enum { LINE_BYTES = 256 };

struct line {
  char text[LINE_BYTES];
  size_t used;
};

/* Not stdio: it allocates. */
static void add(struct line *line, const char *text, size_t bytes) {
  if (bytes > LINE_BYTES - 1 - line->used)
    bytes = LINE_BYTES - 1 - line->used;
  memcpy(line->text + line->used, text, bytes);
  line->used += bytes;
}

static void add_string(struct line *line, const char *text) {
  add(line, text, strlen(text));
}

static void add_address(struct line *line, const void *address) {
  static const char digits[] = "0123456789abcdef";
  uintptr_t value = (uintptr_t)address;
  int shift = 60;
  while (shift > 0 && (value >> shift & 15) == 0)
    shift -= 4;
  add_string(line, "0x");
  for (; shift >= 0; shift -= 4)
    add(line, &digits[value >> shift & 15], 1);
}

static void print(struct line *line) {
  int error = errno;
  line->text[line->used++] = '\n';
  ssize_t written = write(STDERR_FILENO, line->text, line->used);
  (void)written; /* nowhere to report it */
  errno = error;
}

void fault(const char *where, const char *what, const void *address) {
  struct line line = {.used = 0};
  add_string(&line, ALLOCATOR_NAME ": ");
  add_string(&line, where);
  add_string(&line, ": ");
  add_string(&line, what);
  add_string(&line, " (");
  add_address(&line, address);
  add_string(&line, ")");
  print(&line);
  abort();
}

void complain(const char *text, const char *word) {
  struct line line = {.used = 0};
  add_string(&line, ALLOCATOR_NAME ": ");
  add_string(&line, text);
  add_string(&line, ": ");
  add(&line, word, strcspn(word, ":"));
  print(&line);
}

void secret_words(uintptr_t words[2]) {
  const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes, not aligned */
  words[0] = (uintptr_t)words * 0x9E3779B97F4A7C15u;       /* a kernel without them: the stack's address */
  words[1] = ~(uintptr_t)words * 0x9E3779B97F4A7C15u;
  if (random)
    memcpy(words, random, 2 * sizeof *words);
  words[0] |= 1;
  words[1] |= 1;
}

/* A lock is held for tens of ns, waking a sleeper costs thousands: first spin for about that long. */
enum { SPINS = 100 };

void lock_wait(struct lock *lock) {
  for (int spin = 0; spin < SPINS; spin++) {
    if (atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_FREE && lock_try_uncounted(lock))
      return;
    os_spin_pause();
  }
  int error = errno;
  while (atomic_exchange_explicit(&lock->state, LOCK_AWAITED, memory_order_acquire) != LOCK_FREE)
    syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, LOCK_AWAITED, NULL, NULL, 0);
  errno = error;
}

void lock_wake(struct lock *lock) {
  int error = errno;
  syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  errno = error;
}

unsigned processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}
