/* SPDX-License-Identifier: MIT */
#include "core/trace/access_samples.h"

const char *const access_level_names[ACCESS_LEVEL_LIMIT] = {
    [ACCESS_LEVEL_UNKNOWN] = "unknown",
    [ACCESS_LEVEL_L1] = "l1",
    [ACCESS_LEVEL_LINE_BUFFER] = "line_buffer",
    [ACCESS_LEVEL_L2] = "l2",
    [ACCESS_LEVEL_L3] = "l3",
    [ACCESS_LEVEL_MEMORY] = "memory",
    [ACCESS_LEVEL_REMOTE] = "remote",
    [ACCESS_LEVEL_OTHER] = "other",
    [ACCESS_LEVEL_BEYOND_L1] = "beyond_l1",
    [ACCESS_LEVEL_PAGE_FAULT] = "page_fault",
};
