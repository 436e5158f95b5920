#include "replay/state/touch.h"

uint64_t touch_bound_bytes = TOUCH_BOUND_BYTES;
