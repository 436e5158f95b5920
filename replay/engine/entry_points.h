/* SPDX-License-Identifier: MIT */
/* Does the allocator under test define what the workload calls? Uses no malloc. */
#pragma once

/* After the set-up of calls, before the first op: ends the process with an error that names the library and the missing
   functions where an op needs one that the library lacks and nothing stands in for (call_lacks), or where it has malloc
   and no free. Reads the streams only if there is any such function. */
void entry_points_require(void);
