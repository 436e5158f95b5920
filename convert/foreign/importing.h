/* SPDX-License-Identifier: MIT */
/* Importers: convert foreign recordings to traces. Each is one file whose header comment shows a sample of the input
   and what it becomes, and only has its grammar: opening and closing, INFO, thread numbers, stamps, the text of common
   errors are here.

   They are strict: the first violation of the format is an error "FILE:LINE: what" or "FILE: offset N: what". Nothing
   is invented: what the format can't record is listed in INFO's `lacks`, with a `note` for people. Memory is O(live
   objects + threads), plus the nodes of the call stacks if the format has them.

   An importer's run() calls import_begin once, before the first event, then one of the import_*event functions for each
   record, and returns 0, or -1 with import->error filled in. For formats of lines, import_lines does the loop; for
   those of bytes, import_bytes opens and closes. Not thread-safe. */
#pragma once

#include "convert/foreign/reading.h"
#include "core/base/address_map.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/trace/write/trace_write.h"

#include <jansson.h>

struct format; /* convert/foreign/format.h */
struct import; /* below */

struct import_options {
  bool allow_gaps; /* accept a recording that reports missing events: each loss becomes a GAP of the trace */
  bool has_process;
  uint64_t process;             /* of a recording of several processes: the pid of the one to import */
  const char *columns;          /* of a table: what they are; NULL: not given */
  const struct format *implied; /* by an option that a format adds (CLI_ADD), where none is named; NULL: none */
  struct text_line *report;     /* gets what was left out or corrected, in words; empty: nothing. NULL: not wanted */
};

/* A file's beginning and size, to recognise a format by. */
struct import_sample {
  const unsigned char *bytes;
  size_t count; /* at least 4,096, unless the file is shorter */
  uint64_t file_bytes;
};

struct import_format {
  bool (*recognises_line)(const char *line);                   /* NULL: not recognised by lines */
  bool (*recognises_bytes)(const struct import_sample *start); /* NULL: not recognised by bytes */
  bool (*recognises_folder)(const char *path);                 /* NULL: a recording is a file */
  int (*run)(struct import *import);
  const char *without_calls; /* the error where import_lines met no event; NULL: run judges that itself */
};

/* Reads path ("-": standard input) and writes the trace to out. Returns 0, or -1 with error; then out is incomplete. */
int import_file(const struct import_format *format, const char *path, const struct import_options *options,
                const char *out, struct error *error);

/* Gives a foreign format's thread ids dense numbers in the order of their first appearance. Memory is O(ids in use). */
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
