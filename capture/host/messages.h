/* SPDX-License-Identifier: MIT */
/* The library's lines on the program's standard error: why a process is not, or no longer, recorded.

   Invariant: nothing is written where a program has replaced the standard error that it was started with by its own
   file or socket, as a line of ours would damage its data; nor in a sandboxed process. Never a cancellation point,
   allocates nothing, may change errno. */
#pragma once

/* Notes what standard error is now: once per image, before the program can have changed it. */
void message_note_stderr(void);

/* Prints "heaptape: TEXT", cut to one line of 255 bytes. */
void message_print(const char *text);
