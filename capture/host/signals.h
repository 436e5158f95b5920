/* SPDX-License-Identifier: MIT */
/* Blocks all signals of the calling thread for a while, so that no handler interrupts it.

   In a sandboxed process nothing is blocked, as that would be a system call: the caller must be correct without. Keeps
   errno on success; never a cancellation point; async-signal-safe. */
#pragma once

#include <stdint.h>

/* *mask receives what was blocked before: 64 bits, as the kernel has it. */
void signals_block(uint64_t *mask);
void signals_restore(const uint64_t *mask);
