/* SPDX-License-Identifier: MIT */
/* The memory pass's figures at one position: plain types for the shared result (result.h).

   Not its job: measuring (replay/memory/). Nothing here is a pointer. */
#pragma once

#include <stdint.h>

/* Classes of fill with live requests: nothing, up to 10 %, up to 20 %, ... below 100 %, all of it. */
enum { FILL_CLASSES = 12 };

struct os_pages_sum {
  uint64_t live_bytes;      /* of live requests, in resident OS pages */
  uint64_t rounding_bytes;  /* the allocator's rounding up of these */
  uint64_t beside_bytes;    /* all other bytes of OS pages that contain any of these */
  uint64_t empty_bytes;     /* resident OS pages with neither, in which an object has been */
  uint64_t untouched_bytes; /* resident OS pages in which no object ever was */
  uint64_t overlap_bytes;   /* of objects that overlap others: 0, or the allocator is faulty */
  uint64_t os_pages[FILL_CLASSES];
};

/* States of an allocator's own heap walk (replay/memory/heap_walk.h). */
enum { WALK_STATES = 12, WALK_STATE_NAME_BYTES = 24 };

/* A state of the allocator's heap walk: all its bytes, and the resident ones among them. */
struct walked {
  uint64_t bytes, beside_bytes, empty_bytes; /* as in struct os_pages_split */
};

/* One position (fragmentation.h). */
struct fragmentation_row {
  uint64_t position, rss_anon_bytes; /* rss_anon_bytes: of the whole process */
  uint64_t live_bytes;               /* requested, resident or not */
  struct os_pages_sum sum;
  struct walked walked[WALK_STATES];
};
