/* SPDX-License-Identifier: MIT */
/* Numbers of threads: each living thread that has allocated has one, the lowest that was free; those of ended threads
   are given again. Beyond NUMBERS living threads at a time, numbers go on in turn and are never given back.

   Solaris numbers all threads, from 1 on, and gives no number twice. With that a program whose threads come and go
   would soon have none that owns a bucket. */
#pragma once

enum { NUMBERS = 4096, NO_NUMBER = -1 };

int number_take(void);
void number_give_back(int number);

/* Around a fork; in the child, `mine` is the only thread's number, or NO_NUMBER. */
void numbers_lock(void);
void numbers_unlock(void);
void numbers_after_fork(int mine);
