/* SPDX-License-Identifier: MIT */
/* A program, to be linked with own_malloc.c, whose main thread only acquires and releases objects; another thread does
   so now and then. A signal interrupts it at malloc's first instructions, or where these are executed while it is
   recorded: there SIGUSR1's handler writes a line, and waits for a byte. SIGUSR2 ends it, with exit status 0 if all
   objects were correct. */
#include "core/test/usual.h"

enum { FIRST_BYTES = 6, STUB_BYTES = 192, JUMP = 0xe9, JUMP_BYTES = 5 };

static atomic_bool ends;

static bool is_inside(uintptr_t instruction) {
  const uint8_t *code = (const uint8_t *)(uintptr_t)malloc;
  int32_t distance;
  if (code[0] != JUMP)
    return instruction - ((uintptr_t)code + 1) < FIRST_BYTES - 1;
  memcpy(&distance, code + 1, sizeof distance);
  return instruction - ((uintptr_t)code + JUMP_BYTES + (uintptr_t)(intptr_t)distance) < STUB_BYTES;
}

static void wait_inside(int signal, siginfo_t *information, void *context) {
  char byte;
  (void)signal, (void)information;
  if (is_inside((uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]) && write(1, "\n", 1) == 1 &&
      read(0, &byte, 1) != 1)
    _exit(3);
}

static void end(int signal) {
  (void)signal;
  atomic_store(&ends, true);
}

static void *work(void *rests) {
  for (unsigned i = 0; !atomic_load(&ends); i++) {
    unsigned *object = malloc(sizeof *object), *other = malloc(sizeof *other);
    *object = i;
    *other = ~i;
    if (*object != ~*other)
      _exit(4);
    free(object);
    free(other);
    if (rests)
      usleep(500);
  }
  return NULL;
}

int main(void) {
  pthread_t other;
  sigset_t signals;
  struct sigaction action = {.sa_sigaction = wait_inside, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  signal(SIGUSR2, end);
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  pthread_create(&other, NULL, work, &other);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
  if (write(1, "\n", 1) != 1)
    return 2;
  work(NULL);
  return pthread_join(other, NULL);
}
