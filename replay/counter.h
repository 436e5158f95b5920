/* What timing a call costs by itself. */
#ifndef REPLAY_COUNTER_H
#define REPLAY_COUNTER_H

/* The mean advance of the counter over two readings with a call of an empty function between them, in cycles; pairs
   that were interrupted (more than twice the median) are left out. Takes a few milliseconds. With the empty call, as
   between fences one costs some 13 cycles that overlap with other work in a program: without it the sum of timed calls
   was 1.8 times what the bare pass says they cost, with it 1.07 times (README.md). The mean, as a counter may advance
   in steps (26 cycles on one AMD server), where the median of a call and of nothing alike is whole steps. */
double counter_overhead(void);

#endif
