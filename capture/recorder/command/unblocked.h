/* SPDX-License-Identifier: MIT */
/* Standard error that nobody waits for: while processes are served, what is written to stderr is kept, and a thread
   passes it on. So a full pipe, a stopped terminal or a slow disk there keeps no host waiting.

   Not its job: what is written. Invariants: at most 256 KiB are kept; of more, the lines are counted, and the number is
   written in their place. At the end of the process, what is kept is waited for: at a terminal as long as it takes,
   elsewhere until nothing was taken for 5 seconds. */
#pragma once

/* From now on, up to exit(). Where there is no thread for it, all is kept up to then. */
void unblocked_begin(void);

/* What exit() does: waits, as above. SIGINT, SIGTERM and SIGHUP end the process again. */
void unblocked_end(void);
