/* SPDX-License-Identifier: MIT */
/* Was the calling thread taken off its processor? Found without a system call, by a word that the kernel then clears.

   Job: find that word. The kernel guarantees that a thread which is preempted, migrated or interrupted by a signal
   within a restartable sequence (rseq(2)) does not continue in it; if the thread is outside the sequence that its area
   names, the kernel just clears the name. So: store the name of a sequence that nothing ever runs, do something, check
   whether it is still there. Linux 4.18 and glibc 2.35 have it; valgrind does not. A host's interrupts and a
   hypervisor's are not seen. No allocation, no I/O; each thread has its own word. */
#pragma once

#include <stdint.h>

/* The calling thread's word, valid while it lives; NULL where there is none. */
volatile uint64_t *os_switch_word(void);

/* The value to store in the word before. If the word is 0 after, the thread was off its processor, or took a signal.
   Other code that uses restartable sequences in this thread may have stored its own name. */
uint64_t os_switch_armed(void);
