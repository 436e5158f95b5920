/* SPDX-License-Identifier: MIT */
/* The recorder's work per event, to be counted by callgrind: drain_cost OBJECTS EVENTS F.tape fills a ring as a host
   would, by malloc and free of OBJECTS live objects in turn at some places, and drains it, until EVENTS have been
   written to F.tape. The sample of live objects is adapted as at 5 million events a second. */
#include "capture/recorder/processes/recorded_process.h"
#include "capture/recorder/processes/ring_reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVENTS_PER_PASS = 4096, EVENTS_PER_ADAPTION = 50000 };

static uint64_t address_of(uint64_t number) {
  return 0x7f0000000010u + number * 48;
}

/* Releases objects in another order than that of their acquires. */
static uint64_t number_of(uint64_t round, uint64_t objects) {
  return round * 7919 % objects;
}

static void fill(struct recorded_process *process, uint64_t *made, uint64_t objects) {
  char *memory = (char *)process->region[0].memory + region_header_bytes(process->region[0].rings);
  uint64_t *to = (uint64_t *)memory;
  static uint64_t at;
  for (uint32_t i = 0; i < EVENTS_PER_PASS; i += 2, (*made)++) {
    uint64_t address = address_of(number_of(*made, objects));
    uint64_t second[2] = {record_quick(CALL_free, 0), record_quick(CALL_malloc, 24 + *made % 16 * 8)};
    for (int step = *made < objects; step < 2; step++) {
      to[at] = address;
      to[at + 1] = second[step];
      at = (at + 2) % (RING_BYTES / 8);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  uint64_t objects = strtoull(argv[1], NULL, 10), events = strtoull(argv[2], NULL, 10), made = 0, adapted = 0;
  struct error error = {""};
  struct recorded_process *process = recorded_process_open(
      &(struct recording_start){getpid(), -1, argv[3], "{\"order\":\"tags\"}", .origin_stamp = 1}, &error);
  if (!process || process_regions_add(process, REGION_RINGS_FIRST) < 0) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  atomic_store(&process->region[0].memory->used, 1);
  while (trace_writer_totals(process->writer)->events < events) {
    fill(process, &made, objects);
    ring_reading_drain_all(process, NULL, NULL);
    if (trace_writer_totals(process->writer)->events - adapted > EVENTS_PER_ADAPTION) {
      adapted = trace_writer_totals(process->writer)->events;
      recorded_process_sample(process, 2);
    }
  }
  struct process_totals totals;
  return recorded_process_close(process, &(struct recording_end){.end = "exit"}, &totals, &error) == 0 ? 0 : 1;
}
