/* SPDX-License-Identifier: MIT */
/* The .wl workload of dj/malloc's trace2wl: one byte per code, then numbers of 7 bits per byte, most significant first,
   0x80 = more bytes follow.

   Header: 8 POINTERS, 9 SYNCS, 10 THREADS, then for each thread 11 OFFSET, where its stream begins in the file; 1.
   Stream: 2 P SIZE   malloc         4 NEW OLD SIZE   realloc          6 S   signal S
           3 P SIZE   calloc, the    5 P              free             7 S   wait for S
                      product        12 P ALIGN SIZE  memalign         0     nothing
           13 P SIZE  valloc         14 P SIZE        pvalloc          1     end of the thread

   P numbers addresses from 1; 0 is NULL, or a failed call. e.g. the stream 02 01 18, 05 01, 01 becomes malloc(24) =
   0x10, free(0x10): the address of pointer P is 16 P, which only distinguishes objects ("addresses" in `lacks`). The
   file orders its threads only by the syncs. Here they take turns, 16 calls each, and wait as in the file: a legal
   order, but not the recorded one, which the format has lost ("order" in `lacks`). */
#include "convert/formats/exporting.h"
#include "core/base/files.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum wl_code {
  WL_NOP,
  WL_DONE,
  WL_MALLOC,
  WL_CALLOC,
  WL_REALLOC,
  WL_FREE,
  WL_SYNC_W,
  WL_SYNC_R,
  WL_NPTRS,
  WL_NSYNCS,
  WL_NTHREADS,
  WL_START_THREAD,
  WL_MEMALIGN,
  WL_VALLOC,
  WL_PVALLOC
};

/* Consecutive calls of one thread: runs make smaller traces and faster replays, short runs keep the threads level. */
enum { TURN_CALLS = 16 };

#define MAX_POINTERS (UINT64_C(1) << 48)

struct wl_import {
  struct import *import;
  const unsigned char *bytes;
  uint64_t count;
  uint64_t pointers, syncs, threads;
  uint64_t *at;       /* of each thread's stream */
  uint32_t *runnable; /* a ring of `threads` places */
  uint64_t run_first, run_count;
  struct address_map written; /* sync + 1: signalled before a thread waited */
  struct address_map waiting; /* sync + 1: the thread that waits */
  uint64_t calls;
};

static int bad(struct wl_import *wl, uint64_t offset, const char *what) {
  return error_at(wl->import->error, wl->import->path, offset, "%s", what);
}

/* Moves *at past a number; false if it is cut off or has more than 64 bits. */
static bool scan_number(const unsigned char *bytes, uint64_t count, uint64_t *at, uint64_t *number) {
  uint64_t value = 0;
  while (*at < count && value >> 57 == 0) {
    unsigned char byte = bytes[(*at)++];
    value = value << 7 | (byte & 0x7f);
    if (!(byte & 0x80)) {
      *number = value;
      return true;
    }
  }
  return false;
}

static bool scan_field(const unsigned char *bytes, uint64_t count, uint64_t *at, enum wl_code code, uint64_t *number) {
  if (*at >= count || bytes[*at] != code)
    return false;
  ++*at;
  return scan_number(bytes, count, at, number);
}

static bool recognises(const struct import_sample *start) {
  uint64_t at = 0, number, threads;
  return scan_field(start->bytes, start->count, &at, WL_NPTRS, &number) &&
         scan_field(start->bytes, start->count, &at, WL_NSYNCS, &number) &&
         scan_field(start->bytes, start->count, &at, WL_NTHREADS, &threads) &&
         (threads == 0 || scan_field(start->bytes, start->count, &at, WL_START_THREAD, &number));
}

static int take_header(struct wl_import *wl) {
  uint64_t at = 0;
  if (!scan_field(wl->bytes, wl->count, &at, WL_NPTRS, &wl->pointers) ||
      !scan_field(wl->bytes, wl->count, &at, WL_NSYNCS, &wl->syncs) ||
      !scan_field(wl->bytes, wl->count, &at, WL_NTHREADS, &wl->threads))
    return bad(wl, at, "not a .wl workload: its header must give the numbers of pointers, syncs and threads");
  if (wl->pointers > MAX_POINTERS || wl->threads > UINT32_MAX || wl->threads > wl->count / 3)
    return bad(wl, at, "the header claims more than the file can hold");
  wl->at = calloc(wl->threads + 1, sizeof *wl->at);
  wl->runnable = calloc(wl->threads + 1, sizeof *wl->runnable);
  if (!wl->at || !wl->runnable)
    return import_no_memory(wl->import);
  for (uint64_t i = 0; i < wl->threads; i++) {
    if (!scan_field(wl->bytes, wl->count, &at, WL_START_THREAD, &wl->at[i]))
      return bad(wl, at, "the header claims more threads than it lists");
    if (wl->at[i] >= wl->count)
      return bad(wl, at, "a thread's stream begins after the file's end");
    wl->runnable[wl->run_count++] = (uint32_t)i;
  }
  if (at >= wl->count || wl->bytes[at] != WL_DONE)
    return bad(wl, at, "the header does not end");
  return 0;
}

static void make_runnable(struct wl_import *wl, uint32_t thread) {
  wl->runnable[(wl->run_first + wl->run_count++) % wl->threads] = thread;
}

/* Signals the sync: the thread that waits for it runs, now or when it gets there. */
static int signal_sync(struct wl_import *wl, uint64_t sync) {
  struct address_entry *entry = address_map_find(&wl->waiting, sync + 1);
  if (entry->address) {
    make_runnable(wl, entry->slot);
    address_map_remove(&wl->waiting, entry);
    return 0;
  }
  entry = address_map_find(&wl->written, sync + 1);
  if (entry->address)
    return 0;
  return address_map_add(&wl->written, entry, sync + 1, 0, false) ? 0 : import_no_memory(wl->import);
}

/* Returns 1: the thread waits until the sync is signalled; 0: the sync was already signalled; -1. */
static int wait_for(struct wl_import *wl, uint32_t thread, uint64_t sync, uint64_t offset) {
  struct address_entry *entry = address_map_find(&wl->written, sync + 1);
  if (entry->address) {
    address_map_remove(&wl->written, entry);
    return 0;
  }
  entry = address_map_find(&wl->waiting, sync + 1);
  if (entry->address)
    return bad(wl, offset, "two threads wait for one sync");
  return address_map_add(&wl->waiting, entry, sync + 1, thread, false) ? 1 : import_no_memory(wl->import);
}

static int take_call(struct wl_import *wl, uint32_t thread, unsigned code, uint64_t offset) {
  static const uint8_t calls[] = {
      [WL_MALLOC] = CALL_malloc,     [WL_CALLOC] = CALL_calloc, [WL_REALLOC] = CALL_realloc, [WL_FREE] = CALL_free,
      [WL_MEMALIGN] = CALL_memalign, [WL_VALLOC] = CALL_valloc, [WL_PVALLOC] = CALL_pvalloc};
  uint64_t *at = &wl->at[thread], pointer, second = 0, size_bytes = 0;
  bool good = scan_number(wl->bytes, wl->count, at, &pointer);
  if (code == WL_REALLOC || code == WL_MEMALIGN)
    good = good && scan_number(wl->bytes, wl->count, at, &second);
  if (code != WL_FREE)
    good = good && scan_number(wl->bytes, wl->count, at, &size_bytes);
  if (!good)
    return bad(wl, offset, "a call that is cut off, or a number of more than 64 bits");
  if (pointer > wl->pointers || (code == WL_REALLOC && second > wl->pointers))
    return bad(wl, offset, "a pointer's number above what the header claims");
  struct trace_event event;
  if (code == WL_FREE)
    event = event_of_release(CALL_free, 16 * pointer);
  else if (code == WL_REALLOC)
    event = event_of_realloc(CALL_realloc, 16 * second, 16 * pointer, size_bytes, 0);
  else
    event = event_of_acquire(calls[code], 16 * pointer, size_bytes, code == WL_CALLOC ? 1 : second);
  return import_event_in_order(wl->import, thread, ++wl->calls, &event);
}

/* Runs a thread until its turn is over, it waits, or it ends. Returns 1: it may continue later; 0: it may not; -1. */
static int take_turn(struct wl_import *wl, uint32_t thread) {
  uint64_t *at = &wl->at[thread], sync;
  int result;
  for (int calls = 0; calls < TURN_CALLS;) {
    uint64_t offset = *at;
    if (offset >= wl->count)
      return bad(wl, offset, "a thread's stream does not end");
    unsigned code = wl->bytes[(*at)++];
    switch (code) {
    case WL_NOP:
      break;
    case WL_DONE:
      return 0;
    case WL_SYNC_W:
    case WL_SYNC_R:
      if (!scan_number(wl->bytes, wl->count, at, &sync) || sync > wl->syncs)
        return bad(wl, offset, "a sync's number above what the header claims, or cut off");
      result = code == WL_SYNC_W ? signal_sync(wl, sync) : wait_for(wl, thread, sync, offset);
      if (result != 0)
        return result < 0 ? -1 : 0;
      break;
    case WL_MALLOC:
    case WL_CALLOC:
    case WL_REALLOC:
    case WL_FREE:
    case WL_MEMALIGN:
    case WL_VALLOC:
    case WL_PVALLOC:
      if (take_call(wl, thread, code, offset) != 0)
        return -1;
      calls++;
      break;
    default:
      return bad(wl, offset, "an unknown code");
    }
  }
  return 1;
}

static int take_streams(struct wl_import *wl) {
  while (wl->run_count) {
    uint32_t thread = wl->runnable[wl->run_first];
    wl->run_first = (wl->run_first + 1) % wl->threads;
    wl->run_count--;
    int result = take_turn(wl, thread);
    if (result < 0)
      return -1;
    if (result > 0)
      make_runnable(wl, thread);
  }
  if (wl->waiting.count) {
    for (uint64_t i = 0; i < address_map_room(&wl->waiting); i++)
      if (wl->waiting.entries[i].address)
        return bad(wl, wl->at[wl->waiting.entries[i].slot], "a thread waits here for a sync that never comes");
  }
  return 0;
}

static int map(struct wl_import *wl) {
  struct import *import = wl->import;
  int fd = strcmp(import->path, "-") == 0 ? dup(STDIN_FILENO) : open(import->path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) {
    error_errno(import->error, import->path, "can't open");
    os_close(fd);
    return -1;
  }
  /* Threads' streams may be anywhere in the file, so the input must be an unpacked file. */
  void *bytes = MAP_FAILED;
  if (S_ISREG(status.st_mode) && status.st_size > 0)
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (bytes == MAP_FAILED)
    return error_set(import->error, import->path, "not a .wl workload: empty, or not a file that can be mapped");
  wl->bytes = bytes;
  wl->count = (uint64_t)status.st_size;
  return 0;
}

static int run_import(struct import *import) {
  static const struct import_facts facts = {
      .clock = "ordinal",
      .order = "file",
      .source = "dj/malloc workload",
      .lacks = "start times order names addresses failures usable_size",
      .note = "Addresses are made up: 16 times a pointer's number. The order between threads is one that the file's "
              "syncs allow, in turns of 16 calls."};
  struct wl_import wl = {.import = import};
  int result = map(&wl);
  if (result == 0 && (!address_map_init(&wl.written) || !address_map_init(&wl.waiting)))
    result = import_no_memory(import);
  if (result == 0)
    result = import_begin(import, &facts);
  if (result == 0)
    result = take_header(&wl);
  if (result == 0)
    result = take_streams(&wl);
  if (wl.bytes)
    munmap((void *)wl.bytes, wl.count);
  address_map_free(&wl.written);
  address_map_free(&wl.waiting);
  free(wl.at);
  free(wl.runnable);
  return result;
}

static const struct import_format import_format = {.recognises_bytes = recognises, .run = run_import};

/* dj/malloc's workload, .wl (shown above): each thread's calls are in a separate stream. If a thread uses an
   object that another thread used last, the other signals (6) and it waits (7).

   The format has malloc, calloc of the product, memalign, valloc, pvalloc, realloc and free. Operators, posix_memalign,
   aligned_alloc and sized frees become these; reallocarray becomes realloc of the product. Each pointer has its own
   number, never used again. Lost: times, addresses, the order of calls that don't depend on one another,
   malloc_usable_size, failed calls, and everything in the trace besides its calls. */

enum { CHUNK_BYTES = 2048, HEADER_NUMBER_BYTES = 6 };

/* Threads' streams grow at the same time, but are consecutive in the file: full chunks are kept in a temporary file. */
struct wl_thread {
  uint8_t bytes[CHUNK_BYTES];
  uint32_t used;
  VECTOR(uint32_t) chunks; /* numbers in the temporary file */
};

struct wl {
  struct wl_thread **threads;
  uint32_t thread_count;
  struct temporary_file spool;
  uint32_t chunks;
  uint64_t pointers, syncs;
  bool failed; /* no memory, or no room for the temporary file */
};

static void flush_chunk(struct wl *wl, struct wl_thread *thread) {
  uint32_t *chunk = vector_add(&thread->chunks);
  if (!chunk || os_pwrite_all(wl->spool.fd, thread->bytes, CHUNK_BYTES, (uint64_t)wl->chunks * CHUNK_BYTES) != 0) {
    wl->failed = true;
    return;
  }
  *chunk = wl->chunks++;
  thread->used = 0;
}

static void put_byte(struct wl *wl, uint32_t number, uint8_t byte) {
  struct wl_thread *thread = wl->threads[number];
  if (!thread && !(thread = wl->threads[number] = calloc(1, sizeof *thread)))
    wl->failed = true;
  if (!wl->failed && thread->used == CHUNK_BYTES)
    flush_chunk(wl, thread);
  if (!wl->failed)
    thread->bytes[thread->used++] = byte;
}

/* 7 bits per byte, most significant first. */
static void put_number(struct wl *wl, uint32_t thread, uint64_t value) {
  int shift = 63;
  while (shift > 0 && !(value >> shift))
    shift -= 7;
  for (; shift >= 0; shift -= 7)
    put_byte(wl, thread, (uint8_t)((value >> shift & 0x7f) | (shift ? 0x80 : 0)));
}

static void put_code(struct wl *wl, uint32_t thread, uint8_t code, int count, const uint64_t *numbers) {
  put_byte(wl, thread, code);
  for (int i = 0; i < count; i++)
    put_number(wl, thread, numbers[i]);
}

/* Orders a call after the last use of its object by another thread. */
static void synchronise(struct wl *wl, const struct export_call *call) {
  if (!call->released_number || call->last_thread == call->thread)
    return;
  uint64_t sync = wl->syncs++;
  put_code(wl, call->last_thread, 6, 1, &sync);
  put_code(wl, call->thread, 7, 1, &sync);
}

static int take(struct export *export, const struct export_call *call) {
  struct wl *wl = export->context;
  synchronise(wl, call);
  if (call->number > wl->pointers)
    wl->pointers = call->number;
  switch (call->kind) {
  case EXPORT_MALLOC:
    put_code(wl, call->thread, 2, 2, (uint64_t[]){call->number, call->bytes});
    break;
  case EXPORT_CALLOC:
    put_code(wl, call->thread, 3, 2, (uint64_t[]){call->number, call->bytes});
    break;
  case EXPORT_ALIGNED:
    if ((call->call & CALL_ID_MASK) == CALL_valloc || (call->call & CALL_ID_MASK) == CALL_pvalloc)
      put_code(wl, call->thread, (call->call & CALL_ID_MASK) == CALL_valloc ? 13 : 14, 2,
               (uint64_t[]){call->number, call->bytes});
    else
      put_code(wl, call->thread, 12, 3, (uint64_t[]){call->number, call->alignment, call->bytes});
    break;
  case EXPORT_REALLOC:
    put_code(wl, call->thread, 4, 3, (uint64_t[]){call->number, call->released_number, call->bytes});
    break;
  case EXPORT_FREE:
    put_code(wl, call->thread, 5, 1, &call->released_number);
    break;
  }
  return wl->failed ? error_set(export->error, export->out_name, "out of memory, or of room for temporary files") : 0;
}

static void put_header_number(FILE *out, uint8_t code, uint64_t value) {
  fputc(code, out);
  for (int i = HEADER_NUMBER_BYTES - 1; i >= 0; i--)
    fputc((int)((value >> 7 * i & 0x7f) | (i ? 0x80 : 0)), out);
}

static uint64_t stream_bytes(const struct wl_thread *thread) {
  return (uint64_t)thread->chunks.count * CHUNK_BYTES + thread->used + 1;
}

static int write_file(struct export *export, const struct wl *wl) {
  FILE *out = export->out;
  uint32_t used = 0;
  for (uint32_t i = 0; i < wl->thread_count; i++)
    used += wl->threads[i] != NULL;
  uint64_t offset = (uint64_t)(3 + used) * (1 + HEADER_NUMBER_BYTES) + 1;
  put_header_number(out, 8, wl->pointers + 1);
  put_header_number(out, 9, wl->syncs);
  put_header_number(out, 10, used);
  for (uint32_t i = 0; i < wl->thread_count; i++)
    if (wl->threads[i]) {
      put_header_number(out, 11, offset);
      offset += stream_bytes(wl->threads[i]);
    }
  fputc(1, out);
  for (uint32_t i = 0; i < wl->thread_count; i++) {
    const struct wl_thread *thread = wl->threads[i];
    uint8_t bytes[CHUNK_BYTES];
    for (uint32_t k = 0; thread && k < thread->chunks.count; k++) {
      if (os_pread_all(wl->spool.fd, bytes, CHUNK_BYTES, (uint64_t)thread->chunks.at[k] * CHUNK_BYTES) != 0)
        return error_errno(export->error, export->out_name, "can't read the temporary file");
      fwrite(bytes, 1, CHUNK_BYTES, out);
    }
    if (thread) {
      fwrite(thread->bytes, 1, thread->used, out);
      fputc(1, out);
    }
  }
  return ferror(out) ? export_write_failed(export) : 0;
}

static int run_export(struct export *export) {
  struct witness witness;
  struct wl wl = {.thread_count = trace_reader_summary(export->reader)->threads, .spool = {.fd = -1}};
  wl.threads = calloc(wl.thread_count + 1, sizeof *wl.threads);
  export->take = take;
  export->context = &wl;
  int result = -1;
  if (!wl.threads)
    error_set(export->error, export->out_name, "out of memory");
  else if (temporary_file_open(&wl.spool, export->error) == 0)
    result = export_calls(export, &witness);
  if (result == 0)
    result = write_file(export, &wl);
  for (uint32_t i = 0; wl.threads && i < wl.thread_count; i++) {
    if (wl.threads[i])
      free(wl.threads[i]->chunks.at);
    free(wl.threads[i]);
  }
  free(wl.threads);
  temporary_file_close(&wl.spool);
  return result;
}

static const struct export_format export_format = {export_trace, run_export};

REGISTER_FORMAT(.name = "wl", .description = "dj/malloc's workload, .wl (convert/formats/wl.c)", .suffix = ".wl",
                .import = &import_format, .export = &export_format);
