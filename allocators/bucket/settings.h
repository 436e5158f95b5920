/* SPDX-License-Identifier: MIT */
/* What is set, beyond what the tunables' table says: the names that libmtmalloc's settings have, and the limits of
   max_cached. */
#pragma once

/* MTEXCLUSIVE=Y and MTMAXCACHE=16..21 of the environment, and in MTMALLOC_OPTIONS=NAME=VALUE,NAME=VALUE, where
   BUCKET_TUNABLES does not set the same. Then makes max_cached a power of two that there are classes for; says so on
   stderr if it was none. After tunables_read, before anything else of the allocator. */
void settings_setup(void);
