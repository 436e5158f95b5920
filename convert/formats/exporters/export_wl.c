/* SPDX-License-Identifier: MIT */
/* dj/malloc's workload, .wl (import_wl.c shows it): each thread's calls are in a separate stream. If a thread uses an
   object that another thread used last, the other signals (6) and it waits (7).

   The format has malloc, calloc of the product, memalign, valloc, pvalloc, realloc and free. Operators, posix_memalign,
   aligned_alloc and sized frees become these; reallocarray becomes realloc of the product. Each pointer has its own
   number, never used again. Lost: times, addresses, the order of calls that don't depend on one another,
   malloc_usable_size, failed calls, and everything in the trace besides its calls. */
#include "convert/formats/exporters/exporting.h"

#include "core/base/files.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <stdlib.h>
#include <unistd.h>

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
  uint64_t bytes = call->size_bytes;
  if (call->kind == EXPORT_CALLOC && __builtin_mul_overflow(call->size_bytes, call->count, &bytes))
    bytes = UINT64_MAX;
  synchronise(wl, call);
  if (call->number > wl->pointers)
    wl->pointers = call->number;
  switch (call->kind) {
  case EXPORT_MALLOC:
    put_code(wl, call->thread, 2, 2, (uint64_t[]){call->number, bytes});
    break;
  case EXPORT_CALLOC:
    put_code(wl, call->thread, 3, 2, (uint64_t[]){call->number, bytes});
    break;
  case EXPORT_ALIGNED:
    if ((call->call & CALL_ID_MASK) == CALL_valloc || (call->call & CALL_ID_MASK) == CALL_pvalloc)
      put_code(wl, call->thread, (call->call & CALL_ID_MASK) == CALL_valloc ? 13 : 14, 2,
               (uint64_t[]){call->number, bytes});
    else
      put_code(wl, call->thread, 12, 3, (uint64_t[]){call->number, call->alignment, bytes});
    break;
  case EXPORT_REALLOC:
    put_code(wl, call->thread, 4, 3, (uint64_t[]){call->number, call->released_number, bytes});
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

static int run(struct export *export) {
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

const struct export_format export_format_wl = {run};
