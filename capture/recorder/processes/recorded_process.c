/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/recorded_process.h"

#include "capture/recorder/processes/ring_reading.h"
#include "capture/recorder/processes/side_stream.h"
#include "core/base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct recorded_process *recorded_process_open(const struct recording_start *start, struct error *error) {
  struct recorded_process *process = calloc(1, sizeof *process);
  char *own_path = strdup(start->path);
  if (!process || !own_path) {
    free(process);
    free(own_path);
    error_set(error, start->path, "out of memory");
    return NULL;
  }
  const struct trace_writer_options options = {.file = start->file, .is_new = start->is_new};
  if (trace_writer_open(&process->writer, start->path, start->info_json, &options, error) != 0) {
    free(own_path);
    free(process);
    return NULL;
  }
  process->pid = start->pid;
  process->pid_fd = start->pid_fd;
  process->path = own_path;
  process->began_ns = process->origin_ns = os_monotonic_ns();
  process->origin_stamp = start->origin_stamp;
  process->simulated = start->simulated;
  process->file = 1;
  process->pause_word = "paused";
  if (start->has_accesses)
    trace_writer_accesses_begin(process->writer);
  trace_writer_totals(process->writer)->accesses.in_bursts = start->in_bursts;
  sampler_open(&process->sampler, start->pid);
  live_sample_open(&process->live); /* without memory there is no estimate, but everything else continues */
  site_sample_open(&process->sites, process->origin_ns);
  recorded_process_sample(process, start->origin_stamp);
  return process;
}

int recorded_process_add_stacks(struct recorded_process *process) {
  if (process->given_up) {
    errno = EBADF;
    return -1;
  }
  if (process->stacks.area) {
    errno = EEXIST;
    return -1;
  }
  void *memory;
  int fd = shared_memory_open("heaptape-stacks", sizeof(struct stack_area), &memory);
  if (fd >= 0)
    stack_nodes_open(&process->stacks, process->pid, memory, process->writer);
  return fd;
}

void recorded_process_cut(struct recorded_process *process, uint64_t stamp, const char *why) {
  process->cut_stamp = stamp;
  process->cut_why = why;
  ring_reading_find(process); /* a ring found later begins after the cut */
  for (uint32_t i = 0; i < process->readers.count; i++)
    ring_reading_cut(&process->readers.at[i]);
}

void recorded_process_flush(struct recorded_process *process) {
  if (process_writes(process) && trace_writer_flush(process->writer) != 0)
    process_banks_give_up(process, "cannot be written");
}

void recorded_process_flush_in_turns(struct recorded_process *process, void (*between)(void *context), void *context) {
  enum { MANY_EVENTS = 4096 };
  uint64_t written = 0;
  for (uint32_t thread = 0; thread < process->threads && process_writes(process); thread++) {
    uint64_t pending = trace_writer_totals(process->writer)->pending;
    if (trace_writer_flush_thread(process->writer, thread) != 0)
      process_banks_give_up(process, "cannot be written");
    written += pending - trace_writer_totals(process->writer)->pending;
    if (written < MANY_EVENTS)
      continue;
    ring_reading_drain_all(process, between, context);
    written = 0;
  }
}

uint64_t recorded_process_file_bytes(const struct recorded_process *process) {
  enum { FOOTER_BYTES = 16 << 10, EVENT_BYTES = 3 };
  const struct trace_totals *running = trace_writer_totals(process->writer);
  return running->file_bytes + (running->pending + running->accesses.pending) * EVENT_BYTES + FOOTER_BYTES;
}

static void note_peak(struct recorded_process *process, const struct trace_sample *sample) {
  uint64_t peak = trace_sample_anon_peak(process->sampled.rss_anon_bytes ? &process->sampled : NULL, sample);
  if (peak != TRACE_SAMPLE_MISSING && peak > process->peak_memory_bytes)
    process->peak_memory_bytes = peak;
  process->sampled = *sample;
}

/* None is counted by another clock than the processor's. */
static uint64_t stamps_ns(const struct recorded_process *process, uint64_t stamps) {
  uint64_t passed_ns = os_monotonic_ns() - process->origin_ns;
  return stamps ? (uint64_t)((double)stamps * ((double)passed_ns / (double)(os_stamp() - process->origin_stamp))) : 0;
}

uint64_t recorded_process_reading_ns(const struct recorded_process *process) {
  uint64_t stamps = 0;
  for (uint32_t i = 0; i < process->readers.count; i++)
    stamps += atomic_load_explicit(&process->readers.at[i].ring->large_stamps, memory_order_relaxed);
  return stamps_ns(process, stamps);
}

static uint64_t waited_ns(const struct recorded_process *process) {
  uint64_t stamps = 0, ended = 0;
  for (uint32_t i = 0; i < process->readers.count; i++) {
    stamps += atomic_load_explicit(&process->readers.at[i].ring->waited_stamps, memory_order_relaxed);
    ended += atomic_load_explicit(&process->readers.at[i].ring->waits_ended, memory_order_relaxed);
  }
  return stamps_ns(process, stamps) + ended * RING_WAIT_NS;
}

void recorded_process_sample(struct recorded_process *process, uint64_t stamp) {
  struct trace_sample sample;
  uint64_t begin_stamp = os_stamp();
  live_sample_adapt(&process->live);
  site_sample_adapt(&process->sites);
  if (!process_writes(process) || !sampler_read(&process->sampler, &sample))
    return;
  if (process->banks && process->sampler.filters > atomic_load(&process->bank[0].memory->filters))
    atomic_store(&process->bank[0].memory->sandboxed, 1); /* it did not notice one itself */
  for (uint32_t i = 0; process->names && i < process->readers.count; i++)
    ring_reading_name(process, &process->readers.at[i]);
  bool counts = !process->control || atomic_load(&process->control->counter); /* that clock stands still meanwhile */
  sample.stamp = stamp + (counts ? 0 : process->sampler.read_stamp - begin_stamp);
  sample.reading_ns = recorded_process_reading_ns(process);
  sample.waited_ns = waited_ns(process);
  sample.calls = trace_writer_totals(process->writer)->events;
  if (process->simulated) /* it is the simulator's memory */
    return;
  note_peak(process, &sample);
  if (trace_writer_sample(process->writer, &sample) != 0)
    process_banks_give_up(process, "cannot be written");
}

/* The number of nested calls since the last call of this function. */
static uint64_t take_nested(struct recorded_process *process) {
  uint64_t nested = 0;
  for (uint32_t i = 0; i < process->readers.count; i++) {
    struct ring_reader *reader = &process->readers.at[i];
    nested += ring_reading_growth(process, atomic_load(&reader->ring->nested), &reader->nested);
  }
  return nested;
}

struct process_missing recorded_process_missing(const struct recorded_process *process) {
  struct process_missing missing = {process->before.dropped + trace_writer_totals(process->writer)->dropped -
                                        process->skipped,
                                    process->before.skipped + process->skipped};
  for (uint32_t i = 0; i < process->readers.count; i++) {
    const struct ring_reader *reader = &process->readers.at[i];
    missing.dropped += ring_reading_unreported(process, reader, MISSING_RING_FULL);
    missing.skipped += ring_reading_unreported(process, reader, MISSING_PAUSED);
  }
  return missing;
}

bool recorded_process_settings_unknown(const struct recorded_process *process) {
  struct process_missing missing = recorded_process_missing(process);
  return process->settings.unknown || missing.dropped || missing.skipped;
}

/* There is no bank where there was no memory for the first one. */
static uint32_t calls_lost(const struct recorded_process *process) {
  return process->banks ? atomic_load(&process->bank[0].memory->calls_lost) : 0;
}

/* Writes what only the rings' counters have: drops that no DROPPED record reported, and events of threads without a
   ring. */
static void settle(struct recorded_process *process) {
  for (uint32_t i = 0; i < process->readers.count; i++) {
    struct ring_reader *reader = &process->readers.at[i];
    ring_reading_missing(process, reader);
    uint64_t marks = atomic_load(&reader->ring->marks_lost);
    if (marks)
      ring_reading_gap(process, reader, 0, "marks were lost: ring full");
    ring_reading_end_thread(process, reader);
  }
  if (process->cut_why) {
    struct ring_reader first = {.thread = process->threads ? 0 : -1};
    ring_reading_gap(process, &first, 0, process->cut_why);
  }
  uint64_t orphans = 0, invalid = process->broken;
  for (uint32_t i = 0; i < process->banks; i++)
    orphans += ring_reading_growth(process, atomic_load(&process->bank[i].memory->orphan), &(uint64_t){0});
  invalid = process->broken - invalid;
  if (orphans || invalid) {
    struct ring_reader nobody = {.thread = -1};
    ring_reading_gap(process, &nobody, orphans,
                     invalid ? COUNTER_OVERWRITTEN : "no ring for the thread, or a fork child in a sandbox");
  }
  if (calls_lost(process)) {
    struct ring_reader nobody = {.thread = -1};
    ring_reading_gap(process, &nobody, 1, PROCESS_CALLS_LOST);
  }
}

/* Counts calls that others show to be missing. Of a resize under way, the object has been released. */
static void count_unpaired(struct recorded_process *process) {
  const struct trace_totals *running = trace_writer_totals(process->writer);
  struct process_missing missing = recorded_process_missing(process);
  if (!process_writes(process) || process->broken || process->before.lost || running->lost || missing.dropped ||
      missing.skipped)
    return;
  uint64_t unpaired = balance_missing(&process->balance);
  process->unpaired = unpaired > process->in_flight ? unpaired - process->in_flight : 0;
  if (process->unpaired && process->linked) {
    struct ring_reader nobody = {.thread = -1};
    ring_reading_gap(process, &nobody, process->unpaired, PROCESS_CALLS_ROUND);
  }
}

static void take_totals(const struct recorded_process *process, struct trace_writer *writer,
                        struct process_totals *totals) {
  memset(totals, 0, sizeof *totals);
  totals->totals = *trace_writer_totals(writer);
  totals->broken = process->broken;
  totals->skipped = process->skipped;
  totals->clockless = process_banks_paused(process) & PAUSED_BY_SANDBOX;
  totals->stacks_lost = stack_nodes_lost(&process->stacks);
  totals->side_over = process->side ? process->side->over : NULL;
  totals->cut_why = process->cut_why;
  totals->calls_lost = calls_lost(process);
  totals->unpaired = process->unpaired;
  totals->linked = process->linked;
  totals->peak_live_bytes = process->live.peak_bytes;
  totals->peak_is_exact = !process->live.thinned && process->readers.count < 2; /* rings are read one by one */
  totals->peak_memory_bytes = process->peak_memory_bytes;
}

/* Reads the file's size on disk. Returns 0, or -1 with error: the file is gone. */
static int measure_file(const char *path, struct process_totals *totals, struct error *error) {
  struct stat status;
  if (stat(path, &status) != 0)
    return error_errno(error, path, "the trace was removed while it was being written");
  totals->totals.file_bytes = (uint64_t)status.st_size;
  return 0;
}

uint64_t recorded_process_calls(const struct recorded_process *process, uint64_t *skipped) {
  *skipped = 0;
  for (uint32_t i = 0; i < process->readers.count; i++)
    *skipped += atomic_load_explicit(&process->readers.at[i].ring->skipped, memory_order_relaxed);
  return process->before.events + trace_writer_totals(process->writer)->events;
}

/* Resizes under way: their release is before the file's end, and their event is in the next one. */
static uint64_t resizes_under_way(const struct recorded_process *process) {
  uint64_t begins = 0;
  for (uint32_t i = 0; i < process->readers.count; i++)
    begins += process->readers.at[i].begins;
  return begins;
}

/* Each thread is drained at another time, so all are held at one stamp, as for a cut: no event that the following pass
   reads depends on an event that a ring shows only after that pass (docs/methods/ORDERING.md). */
static void drain_up_to(struct recorded_process *process, uint64_t stamp) {
  process->hold_stamp = stamp;
  ring_reading_drain_all(process, NULL, NULL);
  process->hold_stamp = 0;
}

static void take_before(struct recorded_process *process, struct trace_writer *old,
                        const struct process_totals *totals) {
  for (int id = 0; id < CALL_LIMIT; id++)
    process->before.calls[id] += totals->totals.calls[id];
  for (uint32_t thread = 0; thread < process->threads; thread++)
    process->before.request_bytes += trace_writer_thread_counts(old, thread).request_bytes;
  process->before.events += totals->totals.events;
  process->before.dropped += totals->totals.dropped - totals->skipped;
  process->before.skipped += totals->skipped;
  process->before.lost += totals->totals.lost;
  process->before.file_bytes += totals->totals.file_bytes;
}

int recorded_process_rotate(struct recorded_process *process, const struct recording_next *next,
                            struct process_totals *totals, bool *ended, struct error *error) {
  const struct trace_writer_options options = {.is_new = true};
  struct trace_writer *writer, *old = process->writer;
  char *path = strdup(next->path);
  *ended = false;
  if (!path)
    return error_set(error, next->path, "out of memory");
  if (trace_writer_open(&writer, next->path, next->info_json, &options, error) != 0) {
    free(path);
    return -1;
  }
  drain_up_to(process, next->stamp);
  for (uint32_t i = 0; i < process->readers.count; i++)
    ring_reading_leave_file(process, &process->readers.at[i]);
  struct trace_totals *running = trace_writer_totals(old);
  running->nested = take_nested(process);
  running->in_flight = process->in_flight + resizes_under_way(process);
  int result = trace_writer_finish(old, "rotated", next->clock_hz, error);
  take_totals(process, old, totals);
  *ended = true;
  take_before(process, old, totals);
  trace_writer_free(old);
  if (measure_file(process->path, totals, error) != 0)
    result = -1;
  free(process->path);
  process->path = path;
  process->writer = writer;
  process->file++;
  process->threads = 0;
  process->in_flight = process->skipped = process->broken = 0;
  process->origin_ns = os_monotonic_ns();
  process->origin_stamp = next->stamp;
  stack_nodes_renew(&process->stacks, writer);
  recorded_process_sample(process, next->stamp);
  return result;
}

int recorded_process_close(struct recorded_process *process, const struct recording_end *end,
                           struct process_totals *totals, struct error *error) {
  ring_reading_drain_left(process, NULL, NULL);
  for (uint32_t i = 0; i < process->readers.count; i++)
    ring_reading_drain_rest(process, &process->readers.at[i]);
  settle(process);
  count_unpaired(process);
  struct trace_totals *running = trace_writer_totals(process->writer);
  running->nested = take_nested(process);
  running->in_flight = process->in_flight;
  if (end->how) {
    running->exit_status = end->how->status_known ? end->how->status : -1;
    running->final_known = end->how->usage_known && !process->simulated;
    running->final = end->how->usage;
    running->final.reading_ns = recorded_process_reading_ns(process);
    struct trace_sample last = process->sampled;
    last.vm_hwm_bytes = running->final.peak_rss_bytes;
    if (running->final_known && last.vm_hwm_bytes)
      note_peak(process, &last);
  }
  int result = trace_writer_finish(process->writer, end->end, end->clock_hz, error);
  take_totals(process, process->writer, totals);
  trace_writer_free(process->writer);
  if (result == 0 && process->given_up)
    result = error_set(error, process->path, "%s", process->given_up);
  struct error gone;
  if (measure_file(process->path, totals, result == 0 ? error : &gone) != 0)
    result = -1;
  stack_nodes_close(&process->stacks);
  live_sample_close(&process->live);
  balance_close(&process->balance);
  site_sample_close(&process->sites);
  if (process->side)
    process->side->reader->close(process->side);
  for (uint32_t i = 0; i < process->banks; i++)
    munmap(process->bank[i].memory, bank_bytes(process->bank[i].rings));
  sampler_close(&process->sampler);
  os_close(process->pid_fd);
  free(process->readers.at);
  settings_made_free(&process->settings);
  free(process->path);
  free(process);
  return result;
}
