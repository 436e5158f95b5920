/* SPDX-License-Identifier: MIT */
/* What a trace holds besides its events, as writer and reader pass it on: modules, marks, names of threads; the
   process's memory over time and its total use of resources; what the writer has taken, and what a reader finds.

   The caller owns the texts that it passes; they need to live during the call only. Texts to be written need not be
   UTF-8: other bytes are read back as '?'. Texts that are read are UTF-8. */
#pragma once

#include "core/trace/access_stream.h"
#include "core/trace/event.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRACE_MARK_MAX_BYTES = 255, TRACE_MAX_BUILD_ID_BYTES = 64 };

/* An executable or library that was mapped. It applies to the stack nodes after it in the file, until a later module
   has the same addresses; nodes without a module before them belong to the first one after. */
struct trace_module {
  const char *name;     /* base name of the file */
  const char *path;     /* NULL: not stored */
  const char *build_id; /* hexadecimal; NULL: it has none, or none is known */
  uint64_t start, end;  /* addresses that it occupies */
  uint64_t bias;        /* an address less bias is an address of the file's symbols */
};

/* Copies a module with its texts, which trace_module_free_texts frees, also where this returns false: no memory. */
bool trace_module_copy(struct trace_module *to, const struct trace_module *from);
void trace_module_free_texts(struct trace_module *module);

/* A mark that the program set by heaptape.h. */
#define TRACE_MARK_HERE UINT64_MAX
struct trace_mark {
  uint64_t stamp;
  uint64_t events; /* of that thread before the mark; TRACE_MARK_HERE: as many as have been written */
  uint32_t thread;
  const char *text; /* at most TRACE_MARK_MAX_BYTES, the rest is cut */
};

/* One row of a SAMPLES block; TRACE_SAMPLE_MISSING where a quantity could not be read. */
#define TRACE_SAMPLE_MISSING UINT64_MAX
/* Its columns in the order of FORMAT.md section 6. queued_ns: waits of threads for a processor, while they could run;
   reading_ns: of user and system time, reads of which OS pages are resident, for the recording; waited_ns: waits of
   threads for room in their rings; calls: events recorded by then; active_threads: that ran or waited for a processor
   in the second before; throttled_ns: waits that a quota of processor time made. */
/* clang-format off */
#define TRACE_SAMPLE_QUANTITIES(X) \
  X(stamp) X(rss_anon_bytes) X(rss_file_bytes) X(rss_shmem_bytes) X(vm_size_bytes) X(vm_hwm_bytes) \
  X(minor_faults) X(major_faults) X(user_ns) X(system_ns) X(queued_ns) X(reading_ns) \
  X(waited_ns) X(calls) X(active_threads) X(throttled_ns)
/* clang-format on */
#define TRACE_SAMPLE_ONE(name) +1
enum { SAMPLE_COLUMNS = TRACE_SAMPLE_QUANTITIES(TRACE_SAMPLE_ONE) };
#undef TRACE_SAMPLE_ONE
#define TRACE_SAMPLE_FIELD(name) uint64_t name;
struct trace_sample {
  union {
    struct {
      TRACE_SAMPLE_QUANTITIES(TRACE_SAMPLE_FIELD)
    };
    uint64_t quantities[SAMPLE_COLUMNS];
  };
};
#undef TRACE_SAMPLE_FIELD

/* The peak of RssAnon from the sample before (NULL: none) to this one: in this sample, or, where VmHWM shows that RSS
   was higher between the two, that less the files and shared memory of the sample that has fewer of them. So it is an
   upper bound where the process maps or unmaps files meanwhile. TRACE_SAMPLE_MISSING: not known. */
uint64_t trace_sample_anon_peak(const struct trace_sample *before, const struct trace_sample *sample);

/* The process's total use of resources, from the kernel's accounting at its end. */
struct trace_final {
  uint64_t peak_rss_bytes; /* 0: not known exactly */
  uint64_t minor_faults, major_faults, user_ns, system_ns;
  uint64_t reading_ns; /* as in a sample; 0: not known */
};

/* The data accesses in a trace: FOOTER's `accesses`. */
struct trace_access_totals {
  bool recorded;                        /* there are ACCESSES blocks, or there could have been */
  bool in_bursts;                       /* accesses were recorded in bursts only */
  uint64_t switches;                    /* beginnings and ends of bursts in the file */
  uint64_t calls, objects, other;       /* rows in the file */
  uint64_t lost;                        /* rows that could not be written, or placed */
  uint64_t pending;                     /* rows that are in no block yet */
  uint64_t counted[ACCESS_TOTAL_LIMIT]; /* by enum access_total */
  bool known[ACCESS_TOTAL_LIMIT];
};

/* The `why` of the gap of no events with which a thread begins that continues from an earlier file of a rotated
   recording: its number there, and the file's (FORMAT.md section 5c). A format of printf and scanf. */
#define TRACE_CONTINUES "continues thread %u of file %u"

/* Totals of the file, and figures that the caller fills in for the footer. */
struct trace_totals {
  uint64_t events, dropped, in_flight, nested;
  uint64_t clamped_stamps; /* stamps that went back and were raised to their predecessor */
  uint64_t calls[CALL_LIMIT];
  uint32_t threads;
  uint32_t stack_nodes;
  uint64_t file_bytes; /* written so far, without pending rows, which are not in a block yet */
  uint64_t pending;    /* events */
  uint64_t lost;       /* events that could not be written; the caller may add events that it never passed on */
  struct trace_access_totals accesses;
  bool final_known;
  struct trace_final final;
  int exit_status;  /* as returned by wait(2); -1: not known */
  const char *note; /* what the writer left out or corrected, for people; NULL: nothing. Must live until the trace is
                       closed */
  const char *more; /* a JSON object with more keys for the footer, which does not replace existing ones; NULL: none.
                       Must live as long */
};

/* What a reader finds. */
struct trace_summary {
  const char *info_json;   /* INFO's object, NUL-terminated */
  const char *footer_json; /* "{}" if there is none */
  uint32_t threads;        /* thread numbers are 0 .. threads - 1 */
  uint64_t events;         /* rows of all EVENTS blocks */
  uint64_t dropped;        /* by GAP blocks */
  uint64_t file_bytes;
  uint64_t blocks;
  uint64_t first_stamp, last_stamp;    /* over all EVENTS blocks; 0 if there are none */
  bool truncated;                      /* no footer and trailer: what is here was read, but more may be missing */
  uint64_t truncated_at;               /* offset where the last whole block ends */
  uint32_t stack_nodes;                /* of the tree of stacks: 1 .. stack_nodes */
  uint64_t columns;                    /* bit i: some EVENTS block has column i */
  struct trace_access_totals accesses; /* as in the footer; `recorded` also without one */
  uint64_t access_rows;                /* rows of all ACCESSES blocks, by their headers */
  uint64_t access_bytes;               /* bytes of these blocks in the file */
  uint64_t access_filter_bytes;        /* bytes of the filter in front of the recording, from INFO */
  double clock_hz;                     /* the footer's, else INFO's; 0: stamps give an order only */
  uint64_t clock_origin_stamp;         /* time 0 of the recording */
};

/* Counts of calls as JSON: by name, of those that were made. A new object, the caller's. */
struct json_t *call_counts_json(const uint64_t counts[CALL_LIMIT]);

/* Below this, an allocator's start-up is most of what a replay measures. */
enum { FEW_CALLS = 1000 };

/* A sentence where live bytes are less than half of the program's memory, else "". What the rest is, a replay tells.
   program: its name. */
enum { MEMORY_UNEXPLAINED_BYTES = 224 };
const char *memory_unexplained_text(char *to, double peak_live_bytes, double peak_memory_bytes, const char *program);
