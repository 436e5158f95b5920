/* SPDX-License-Identifier: MIT */
/* For the tests of this folder: a handler that runs after each instruction (SIGTRAP, by the trap flag), and acts after
   a chosen one of libheaptape.so, whose hooks call nothing there that a handler must not interrupt. x86-64 only. */
#pragma once

#include "core/test/check.h"

#if defined(__x86_64__)
static uintptr_t step_from, step_to; /* code of the library */
static volatile int step_count, step_act_at;
static volatile bool step_gave_up; /* before acting: nothing is known of the instructions that follow */
static void (*step_act)(void);

/* The next instruction is a system call that may block SIGTRAP: the hook waits for room in the ring, as the recorder
   got no processor for long. The instruction behind it would be stepped with SIGTRAP blocked, which ends the process.
 */
static inline bool step_may_block(const greg_t *registers) {
  static const unsigned char syscall_instruction[] = {0x0f, 0x05};
  return registers[REG_RAX] == SYS_rt_sigprocmask &&
         memcmp((const void *)(uintptr_t)registers[REG_RIP], syscall_instruction, sizeof syscall_instruction) == 0;
}

/* The remaining call is not stepped, either: it may block SIGTRAP. */
static void step_handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  uintptr_t at = (uintptr_t)registers[REG_RIP];
  if (step_may_block(registers)) {
    step_gave_up = true;
    registers[REG_EFL] &= ~0x100;
    return;
  }
  if (at < step_from || at >= step_to || step_count++ != step_act_at)
    return;
  registers[REG_EFL] &= ~0x100;
  step_act();
}

static inline void step_prepare(void (*act)(void)) {
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL, "/proc/self/maps");
  while (fgets(line, sizeof line, maps)) {
    if (strstr(line, " r-xp ") && strstr(line, "/libheaptape.so"))
      CHECK(sscanf(line, "%lx-%lx", &step_from, &step_to) == 2, "%s", line);
  }
  fclose(maps);
  CHECK(step_to > step_from, "libheaptape.so is not loaded");
  step_act = act;
  struct sigaction action = {.sa_sigaction = step_handler, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGTRAP, &action, NULL) == 0, "sigaction");
}

/* Steps from here to step_end; acts after that instruction of the library. */
static inline void step_begin(int act_at) {
  step_count = 0;
  step_gave_up = false;
  step_act_at = act_at;
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
}
static inline void step_end(void) {
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $-0x101, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
}
#else
static volatile int step_count;
static volatile bool step_gave_up;
static inline void step_prepare(void (*act)(void)) {
  (void)act;
}
static inline void step_begin(int act_at) {
  (void)act_at;
}
static inline void step_end(void) {}
#endif
