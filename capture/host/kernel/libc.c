/* SPDX-License-Identifier: MIT */
/* The functions of the C library that this library calls, under the same names, but hidden: the program may define the
   names itself, with another meaning (an emulator's syscall), or with one that allocates, and its definition would be
   called. They do what this library needs of them. Linked with --wrap=syscall, as the name is also that of an entry
   point of ours. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc 2.43 has macros of these names, which keep const. */
#undef memchr
#undef strchr
#undef strrchr
#undef strstr

#pragma GCC visibility push(hidden)
#if !defined(__clang__) /* its loops must not become calls of the functions that they are in */
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

/* --- the kernel --- */

static long call_kernel(long number, const long word[6]) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = word[3];
  register long r8 __asm__("r8") = word[4];
  register long r9 __asm__("r9") = word[5];
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(word[0]), "S"(word[1]), "d"(word[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
#else
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = word[0];
  register long x1 __asm__("x1") = word[1];
  register long x2 __asm__("x2") = word[2];
  register long x3 __asm__("x3") = word[3];
  register long x4 __asm__("x4") = word[4];
  register long x5 __asm__("x5") = word[5];
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  long result = x0;
#endif
  if (result >= 0 || result < -4095)
    return result;
  errno = (int)-result;
  return -1;
}

/* Variable arguments are passed as these are; callers give as many as the call has. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  return call_kernel(number, (const long[6]){a, b, c, d, e, f});
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  const long word[6] = {(long)address, (long)bytes, protection, flags, fd, offset};
  return (void *)call_kernel(SYS_mmap, word);
}

int munmap(void *address, size_t bytes) {
  const long word[6] = {(long)address, (long)bytes};
  return (int)call_kernel(SYS_munmap, word);
}

int mprotect(void *address, size_t bytes, int protection) {
  const long word[6] = {(long)address, (long)bytes, protection};
  return (int)call_kernel(SYS_mprotect, word);
}

int madvise(void *address, size_t bytes, int advice) {
  const long word[6] = {(long)address, (long)bytes, advice};
  return (int)call_kernel(SYS_madvise, word);
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *limit) {
  const long word[6] = {0, (long)resource, 0, (long)limit};
  return (int)call_kernel(SYS_prlimit64, word);
}

int setsockopt(int sock, int level, int option, const void *value, socklen_t bytes) {
  const long word[6] = {sock, level, option, (long)value, (long)bytes};
  return (int)call_kernel(SYS_setsockopt, word);
}

int sigaltstack(const stack_t *stack, stack_t *old) {
  const long word[6] = {(long)stack, (long)old};
  return (int)call_kernel(SYS_sigaltstack, word);
}

#if defined(__x86_64__)
/* Only the page size is asked for. */
long sysconf(int name) {
  (void)name;
  return 4096;
}
#endif

/* --- the thread --- */

/* With glibc and musl the same on x86-64; on ARM64 their value is a little below it. */
pthread_t pthread_self(void) {
  return (pthread_t)__builtin_thread_pointer();
}

/* --- memory and strings --- */

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  char *out = to;
  const char *in = from;
  while (bytes--)
    *out++ = *in++;
  return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
  char *out = to;
  const char *in = from;
  if (out - in < 0)
    return memcpy(to, from, bytes);
  while (bytes--)
    out[bytes] = in[bytes];
  return to;
}

void *memset(void *to, int byte, size_t bytes) {
  char *out = to;
  while (bytes--)
    *out++ = (char)byte;
  return to;
}

int memcmp(const void *one, const void *other, size_t bytes) {
  const unsigned char *a = one, *b = other;
  for (; bytes; bytes--, a++, b++)
    if (*a != *b)
      return *a - *b;
  return 0;
}

void *memchr(const void *from, int byte, size_t bytes) {
  for (const unsigned char *at = from; bytes; bytes--, at++)
    if (*at == (unsigned char)byte)
      return (void *)at;
  return NULL;
}

void *memmem(const void *from, size_t bytes, const void *part, size_t part_bytes) {
  const char *at = from, *end = at + bytes;
  for (; (size_t)(end - at) >= part_bytes; at++)
    if (memcmp(at, part, part_bytes) == 0)
      return (void *)at;
  return NULL;
}

size_t strlen(const char *text) {
  return (size_t)((const char *)memchr(text, 0, SIZE_MAX) - text);
}

size_t strnlen(const char *text, size_t most) {
  const char *end = memchr(text, 0, most);
  return end ? (size_t)(end - text) : most;
}

int strncmp(const char *one, const char *other, size_t most) {
  for (; most && *one && *one == *other; most--, one++, other++)
    ;
  return most ? (unsigned char)*one - (unsigned char)*other : 0;
}

int strcmp(const char *one, const char *other) {
  return strncmp(one, other, SIZE_MAX);
}

char *strncpy(char *restrict to, const char *restrict from, size_t bytes) {
  size_t length = strnlen(from, bytes);
  memcpy(to, from, length);
  memset(to + length, 0, bytes - length);
  return to;
}

char *strchr(const char *text, int byte) {
  return memchr(text, byte, strlen(text) + 1);
}

char *strrchr(const char *text, int byte) {
  for (const char *at = text + strlen(text);; at--)
    if (*at == (char)byte)
      return (char *)at;
    else if (at == text)
      return NULL;
}

char *strstr(const char *text, const char *part) {
  return memmem(text, strlen(text), part, strlen(part));
}

#pragma GCC visibility pop
