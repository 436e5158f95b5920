/* SPDX-License-Identifier: MIT */
/* Was the calling thread taken off its processor? Told without a system call, by a word that the kernel clears then.

   Job: find that word. The kernel promises that a thread which is preempted, migrated or interrupted by a signal within
   a restartable sequence (rseq(2)) does not go on in it; where it stands outside the sequence that its area names, the
   kernel just clears the name. So: store the name of a sequence that nothing ever runs, do something, look whether it
   still stands. Linux 4.18 and glibc 2.35 have it; valgrind hasn't. A host's interrupts and a hypervisor's are not
   seen. No allocation, no I/O; each thread has a word of its own. */
#pragma once

#include <stdint.h>

/* The calling thread's word, valid while it lives; NULL where there is none. */
volatile uint64_t *os_switch_word(void);

/* What to store in the word before; 0 in its place after: the thread was off its processor, or took a signal. Whoever
   else uses restartable sequences in this thread may have stored a name of his own. */
uint64_t os_switch_armed(void);
