/* SPDX-License-Identifier: MIT */
/* Counts the instructions of a call by stepping through it in a child process, one instruction at a time. */
#pragma once

#include <stdint.h>

/* Runs call(argument) in a fork of this process and returns how many instructions that took, including some around it,
   which are the same for each call; -1: the child could not be traced, or died. Changes that the call makes are lost
   with the child. */
int64_t stepping_count(void (*call)(unsigned), unsigned argument);
