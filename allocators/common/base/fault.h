/* SPDX-License-Identifier: MIT */
/* Stops a program whose heap is corrupt: one line on stderr, then abort().

   Takes no lock and allocates nothing, so it may be called with any lock held. */
#pragma once

/* Prints "NAME: WHERE: WHAT (ADDRESS)", NAME the allocator's. */
__attribute__((noreturn, cold)) void fault(const char *where, const char *what, const void *address);

/* Prints "NAME: TEXT: WORD" and returns: for settings that are ignored. word ends at a NUL or ':'. */
void complain(const char *text, const char *word);
