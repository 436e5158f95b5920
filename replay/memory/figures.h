/* SPDX-License-Identifier: MIT */
/* The heap walk: an allocator's own description of its heap, where it offers one.

   If an allocator exports both functions, the memory pass's results have its states; any other is measured from outside
   as well as possible (fragmentation.h). Our reference allocator exports them. The contract:

     void heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context),
                             void *context);
       calls visit once for each chunk that the allocator has divided its heap into. Chunks do not overlap.
       State 0: handed out to the program, or used by the allocator itself; any other state: free, in some kind of list.
       Memory in no chunk is the allocator's own (headers, tables; large objects with their own mapping may be left out,
       too). The walk may take locks, must not allocate, must give no memory back, and must leave the heap as it was. It
       is called between two ops, by a thread that has called malloc before, while no other thread runs.

     const char *heaptape_heap_walk_state(unsigned state);
       returns the state's name, made of the letters a to z, digits and _; NULL: neither this state nor a higher one
       exists. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is measured of memory: plain types for the area that the engine and its parent share.

   Nothing here is a pointer. */

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

/* States of an allocator's own heap walk (fragmentation.h). */
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

enum {
  TIMELINE_ROWS = 8192,
  MAP_POSITIONS = 256,
  MAP_BYTES = 64 << 20, /* sparse: only what is written costs memory */
  FRAGMENTATION_ROWS = MAP_POSITIONS + 2,
  WALL_PARTS = 1024,
};

struct memory_row {
  uint64_t position, rss_anon_bytes, vm_size_bytes, live_bytes;
};

/* Of passes that sample memory: the first part of their figures. */
struct memory_figures {
  uint64_t rss_anon_start_bytes, vm_size_start_bytes; /* just before the first op */
  uint64_t rss_anon_end_bytes, vm_size_end_bytes, live_bytes_end;
  _Atomic uint64_t live_bytes_peak;
  uint64_t wall_from_ns, wall_ns;  /* program time that the recording begins at, and its length; 0: no times */
  double wall_byte_ns[WALL_PARTS]; /* RssAnon of the whole process, times ns, in equal parts of that */
  uint64_t huge_pages;             /* from the first op on (memory.h) */
  uint64_t vm_hwm_bytes;           /* /proc/self/status; the engine's own memory included */
  struct {
    uint64_t rss_anon_bytes, vm_size_bytes;
  } freed, purged;     /* with nothing live; after the allocator's purge call */
  char purge_call[96]; /* empty: none is known */

  uint64_t rows, rows_lost;
  struct memory_row timeline[TIMELINE_ROWS];
  uint64_t map_cell_bytes, map_positions_count, map_used_bytes, map_lost_bytes, map_lost_resident_bytes;
  uint32_t map_residency; /* enum residency_method */
  uint64_t map_positions[MAP_POSITIONS + 2];
  uint8_t map[MAP_BYTES];
  uint64_t fragmentation_count;
  bool usable_size_missing; /* the allocator has no malloc_usable_size */
  unsigned walk_states;     /* 0: it offers no heap walk */
  char walk_state_names[WALK_STATES][WALK_STATE_NAME_BYTES];
  struct fragmentation_row fragmentation[FRAGMENTATION_ROWS];
};
