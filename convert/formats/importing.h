/* SPDX-License-Identifier: MIT */
/* Gives a foreign format's thread ids dense numbers in the order of their first appearance. Memory is O(ids in use). */
#pragma once

#include "convert/formats/formats.h"
#include "convert/formats/reading.h"
#include "core/base/address_map.h"
#include "core/trace/write/trace_write.h"

#include <jansson.h>

struct thread_numbers {
  struct address_map map; /* id + 1 to number */
  uint32_t count;
};

/* Gives the number of the id, which is below UINT64_MAX; a new number if it has none. False if there is no memory. */
static inline bool thread_number(struct thread_numbers *numbers, uint64_t id, uint32_t *number) {
  struct address_entry *entry = address_map_find(&numbers->map, id + 1);
  if (!entry->address) {
    *number = numbers->count++;
    return address_map_add(&numbers->map, entry, id + 1, *number, false);
  }
  *number = entry->slot;
  return true;
}

/* The thread has ended: if its id comes again, it is another thread. False if it had no number. */
static inline bool thread_number_end(struct thread_numbers *numbers, uint64_t id, uint32_t *number) {
  struct address_entry *entry = address_map_find(&numbers->map, id + 1);
  if (!entry->address)
    return false;
  *number = entry->slot;
  address_map_remove(&numbers->map, entry);
  return true;
}

/* What the importers share: opening and closing, INFO, thread numbers, stamps, the text of common errors. So each
   importer only contains its grammar.

   An importer's run() calls import_begin once, before the first event, then one of the import_*event functions for each
   record, and returns 0, or -1 with import->error filled in. For formats of lines, import_lines does the loop; for
   those of bytes, import_bytes opens and closes. Not thread-safe. */

struct import {
  const char *path, *out, *without_calls;
  const struct import_options *options;
  struct text_line *report;
  struct error *error;
  struct line_reader *lines;   /* inside import_lines */
  struct trace_writer *writer; /* NULL before import_begin */
  struct thread_numbers threads;
  bool has_pid;
  uint64_t pid;       /* set by import_process */
  uint64_t cached_id; /* the thread id of cached_thread; UINT64_MAX: none */
  uint32_t cached_thread;
  uint32_t last_thread; /* of import_event_in_order */
  uint64_t last_stamp;
};

/* Values for INFO. The strings are plain ASCII. */
struct import_facts {
  const char *clock; /* "ordinal", "counter" or "nanoseconds": FORMAT.md section 5 */
  const char *order; /* "file", "every", "logged" or "text" */
  const char *source;
  const char *program; /* NULL: not known */
  const char *lacks;   /* words with spaces between */
  const char *note;    /* NULL: none */
  uint64_t origin_stamp;
  uint64_t os_page_bytes; /* 0: not known */
  uint64_t pid;           /* 0: not known */
};

/* Creates the trace. Returns 0, or -1 with import->error. */
int import_begin(struct import *import, const struct import_facts *facts);

/* Bytes of a file from that offset on, at any alignment. */
struct import_piece {
  const unsigned char *at;
  size_t count;
  uint64_t offset;
  bool is_end; /* the file ends with them */
};

/* Takes whole records of a piece. Returns how many bytes they have, as the next piece begins with the rest; or -1. */
typedef int64_t import_take(void *context, const struct import_piece *piece);

/* Creates the trace, and has the file's pieces taken, after unpacking, up to one with is_end. Returns 0, or -1 with
   import->error. */
int import_bytes(struct import *import, const struct import_facts *facts, import_take *take, void *context);

/* Calls take for each line, of import->lines if that is set, else of the file, until take returns non-zero. Closes the
   lines. Returns 0, or -1 with import->error, also where the trace was not begun and the format has an error for it. */
int import_lines(struct import *import, int (*take)(void *context, const char *line), void *context);

/* Adds a sentence to the report. */
__attribute__((format(printf, 2, 3))) void import_note(struct import *import, const char *format, ...);

/* Is a line of this process to be imported? 1: yes, and import->pid is set to it; 0: --process names another; -1 with
   error: the lines before are of another process. */
int import_process(struct import *import, uint64_t pid);

/* "FILE:LINE: not a line of WHAT: 'the line'". Returns -1. */
int import_bad_line(struct import *import, const char *what, const char *line);
int import_no_memory(struct import *import);

/* Gives the dense number of a foreign thread id (below UINT64_MAX). Returns 0, or -1 with error. */
static inline int import_thread(struct import *import, uint64_t id, uint32_t *thread) {
  if (id != import->cached_id) {
    if (!thread_number(&import->threads, id, &import->cached_thread)) {
      import_no_memory(import);
      return -1;
    }
    import->cached_id = id;
  }
  *thread = import->cached_thread;
  return 0;
}

/* The thread has ended: if its id comes again, it is another thread's. Frees its memory. */
static inline int import_thread_end(struct import *import, uint64_t id) {
  uint32_t thread;
  import->cached_id = UINT64_MAX;
  if (!thread_number_end(&import->threads, id, &thread))
    return 0; /* a thread that made no call */
  return trace_writer_flush_thread(import->writer, thread);
}

/* Refuses sizes that no recorder can have seen, so that the trace can be compiled. Returns 0, or -1 with error. */
int import_refuse_size(struct import *import, const struct trace_event *event);

static inline int import_write(struct import *import, uint32_t thread, const struct trace_event *event) {
  if (__builtin_expect((event->size_bytes | event->param) >> 32 != 0, 0) && import_refuse_size(import, event) != 0)
    return -1;
  return trace_writer_event(import->writer, thread, event);
}

/* Writes an event with its own stamps. A thread's first event needs one. */
static inline int import_event(struct import *import, uint64_t id, const struct trace_event *event) {
  uint32_t thread;
  return import_thread(import, id, &thread) == 0 ? import_write(import, thread, event) : -1;
}

/* Writes an event of a file whose order is that of the calls. now is its time, or its record's number, from 1. Equal
   and even falling times are accepted: the event is stamped so that the merged order is the file's. */
static inline int import_event_in_order(struct import *import, uint64_t id, uint64_t now, struct trace_event *event) {
  uint32_t thread;
  if (import_thread(import, id, &thread) != 0)
    return -1;
  event->release_stamp = event->acquire_stamp = 0;
  if (now > import->last_stamp || thread != import->last_thread) {
    import->last_stamp = now > import->last_stamp ? now : import->last_stamp + 1;
    import->last_thread = thread;
    event->release_stamp = import->last_stamp;
    /* A second step inherits the stamp of the first. */
    event->acquire_stamp = trace_event_steps(event) == 2 ? 0 : import->last_stamp;
  }
  return import_write(import, thread, event);
}

/* The same for binary files without times: only a thread's first event after another thread's is stamped, with its
   record's number. That is enough for the order, and less work for the writer. */
static inline int import_event_by_number(struct import *import, uint64_t id, uint64_t number,
                                         struct trace_event *event) {
  uint32_t thread;
  if (import_thread(import, id, &thread) != 0)
    return -1;
  return import_event_in_order(import, id, thread == import->last_thread ? import->last_stamp : number, event);
}

/* The same for formats without threads. */
static inline int import_only_thread(struct import *import, uint64_t now, struct trace_event *event) {
  return import_event_in_order(import, 0, now, event);
}

/* Make events without stamps. Address 0 means NULL: nothing was handed out, or nothing was passed in. */
static inline struct trace_event event_of_acquire(int call, uint64_t address, uint64_t size_bytes, uint64_t param) {
  return (struct trace_event){.acquired = address,
                              .size_bytes = size_bytes,
                              .param = param,
                              .call = (uint8_t)(call | (address ? 0 : CALL_NULL_OUT))};
}

static inline struct trace_event event_of_release(int call, uint64_t address) {
  return (struct trace_event){.released = address, .call = (uint8_t)(call | (address ? 0 : CALL_NULL_IN))};
}

static inline struct trace_event event_of_realloc(int call, uint64_t from, uint64_t to, uint64_t size_bytes,
                                                  uint64_t count) {
  return (struct trace_event){.released = from,
                              .acquired = to,
                              .size_bytes = size_bytes,
                              .param = count,
                              .call = (uint8_t)(call | (from ? 0 : CALL_NULL_IN) | (to ? 0 : CALL_NULL_OUT))};
}

/* Moves releases that the recorder logged too late to their place, in a stream without thread ids.

   heaptrack, mtrace and jemalloc's utrace log a realloc after the call. Meanwhile another thread may have been handed
   the old address, and its acquire is logged before the release. Without threads the history can't repair that: it
   keeps each thread's order. So events pass through a window here. An acquire of an address that is live leaves an
   empty place before itself; if a late release (of a realloc) of that address comes within the window, it moves there.
   If none comes, the place stays empty, and the history counts the overlap.

   Invariants: events keep their order, except the releases moved; each is passed on once. Memory is O(live objects).
   Not thread-safe. */

/* A thread may be descheduled between its call and the log: on a busy machine up to 27,000 events were seen between
   them (heaptrack, four threads that realloc, load 8). */
enum { LATE_RELEASE_WINDOW = 1 << 16 };

struct late_place {
  struct trace_event event;
  uint64_t now;
  uint64_t awaited; /* not 0: an empty place, for a release of this address */
  uint32_t earlier; /* the previous empty place that awaits the same address, numbered as in live; 0: none */
};

struct late_releases {
  struct import *import;
  struct address_map live; /* slot: low 32 bits of the number of the place that awaits a release; 0: none */
  uint64_t first, next;    /* numbers of the places in the window, from 1 */
  uint64_t moved;
  struct late_place places[LATE_RELEASE_WINDOW];
};

/* NULL with import->error if there is no memory. */
struct late_releases *late_releases_new(struct import *import);
void late_releases_free(struct late_releases *late); /* may be NULL */

/* Takes an event of the stream; now as for import_event_in_order. may_be_late: the event is a free whose address may be
   the old one of a realloc. Returns 0, or -1. */
int late_releases_event(struct late_releases *late, uint64_t now, const struct trace_event *event, bool may_be_late);

/* Passes on the events in the window, and reports how many releases were moved. */
int late_releases_finish(struct late_releases *late);
