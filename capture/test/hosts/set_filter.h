/* SPDX-License-Identifier: MIT */
/* Sets a filter of system calls, as host programs under test do. */
#pragma once

#include "core/test/usual.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

/* list: numbers of calls between commas, which get the action. own: by an instruction of the program's own. Ends the
   program with status 77 where it can't be set. */
static inline void set_filter(const char *list, unsigned action, int own) {
  struct sock_filter rules[64];
  unsigned short count = 0;
  rules[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (const char *at = list; *at; at += strspn(at, ",")) {
    rules[count++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)strtoul(at, (char **)&at, 10), 0, 1);
    rules[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  }
  rules[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {count, rules};
  long failed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#if defined(__x86_64__)
  if (own)
    __asm__ volatile("syscall"
                     : "=a"(failed)
                     : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(&filter)
                     : "rcx", "r11", "memory");
  else
#endif
    failed |= prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
  if (failed)
    _exit(77);
}
