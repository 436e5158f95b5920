/* What reading the cycle counter costs by itself. */
#ifndef REPLAY_COUNTER_H
#define REPLAY_COUNTER_H

#include <stdint.h>

/* The median advance of the counter over two readings with nothing between them, in cycles. Takes under a millisecond.
 */
uint64_t counter_overhead(void);

#endif
