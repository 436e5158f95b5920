/* SPDX-License-Identifier: MIT */
/* Settings beyond the table of tunables: libmtmalloc's names, and the limits of max_cached. */
#pragma once

/* MTEXCLUSIVE=Y and MTMAXCACHE=16..21 of the environment, and in MTMALLOC_OPTIONS=NAME=VALUE,NAME=VALUE, where
   BUCKET_TUNABLES does not set the same. Then makes max_cached a power of two for which there are classes, and reports
   on stderr if it was not one. Call after tunables_read, before anything else of the allocator. */
void settings_setup(void);
