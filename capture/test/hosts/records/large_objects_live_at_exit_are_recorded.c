/* SPDX-License-Identifier: MIT */
/* The touched OS pages of large objects that are never freed are in the trace when the program ends by exit or by
   return from main; a freed object is not among them, and a program that ends by _exit leaves none of them. */
#include "capture/test/hosts/recording.h"
#include "core/trace/read/trace_read.h"

#include <malloc.h>
#include <string.h>
#include <unistd.h>

enum { OBJECT_BYTES = 1 << 20 };

static void *touched_object(long os_pages) {
  char *object = keep(malloc(OBJECT_BYTES));
  for (long i = 0; i < os_pages; i++)
    ((volatile char *)object)[i * sysconf(_SC_PAGESIZE)] = 1;
  return object;
}

int host(void) {
  mallopt(M_MMAP_THRESHOLD, 128 << 10); /* fixed: memory that was resident before is not handed out again */
  touched_object(11);
  touched_object(0);
  touched_object(40);
  free(touched_object(77));
  keep(malloc(1000));
  if (strcmp(host_arguments[0], "quick") == 0)
    _exit(0);
  return 0;
}

struct seen {
  uint32_t rows;
  uint32_t os_pages[16];
};

static int note(void *context, uint64_t address, uint32_t os_pages) {
  struct seen *seen = context;
  CHECK(address && seen->rows < 16, "row %u at %lx", seen->rows, address);
  seen->os_pages[seen->rows++] = os_pages;
  return 0;
}

static int by_value(const void *left, const void *right) {
  return (int)*(const uint32_t *)left - (int)*(const uint32_t *)right;
}

static struct seen record(const char *how) {
  struct seen seen = {0};
  struct error error = {{0}};
  struct trace_reader *reader;
  CHECK(record_program(NULL, (const char *const[]){self_path(), "host", how, NULL}) == 0, "the host failed");
  CHECK(trace_reader_open(&reader, "t.tape", &error) == 0, "%s", error.text);
  CHECK(trace_reader_touched(reader, note, &seen, &error) == 0, "%s", error.text);
  trace_reader_close(reader);
  qsort(seen.os_pages, seen.rows, sizeof *seen.os_pages, by_value);
  return seen;
}

int test(void) {
  struct seen seen = record("slow");
  CHECK(seen.rows == 3, "%u rows", seen.rows);
  CHECK(seen.os_pages[0] == 0 && seen.os_pages[1] == 11 && seen.os_pages[2] == 40, "%u, %u and %u OS pages",
        seen.os_pages[0], seen.os_pages[1], seen.os_pages[2]);
  seen = record("quick");
  CHECK(seen.rows == 0, "%u rows after _exit", seen.rows);
  return 0;
}
