/* SPDX-License-Identifier: MIT */
/* Checks that the allocator under test defines the functions that the workload calls. Uses no malloc. */
#pragma once

/* Call after the set-up of calls, before the first op. Ends the process with an error that names the library and the
   missing functions if an op needs a function that the library lacks and for which there is no substitute (call_lacks),
   or if the library has malloc but no free. Reads the streams only if there is such a function. */
void entry_points_require(void);
