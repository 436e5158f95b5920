/* SPDX-License-Identifier: MIT */
/* Numbers of threads: each living thread that has allocated has one, the lowest that was free; numbers of ended threads
   are reused. Beyond NUMBERS live threads at a time, further numbers are assigned in sequence and never reused.

   Solaris numbers all threads, from 1 on, and reuses no number: a program whose threads come and go would soon have no
   thread that owns a bucket. */
#pragma once

enum { NUMBERS = 4096, NO_NUMBER = -1 };

int number_take(void);
void number_give_back(int number);

/* Call around a fork; in the child, `mine` is the only thread's number, or NO_NUMBER. */
void numbers_lock(void);
void numbers_unlock(void);
void numbers_after_fork(int mine);
