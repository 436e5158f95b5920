/* SPDX-License-Identifier: MIT */
#include "capture/sampling/perf_source.h"

#include "core/base/os.h"
#include "core/base/vector.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RING_PAGES = 64 }; /* less than an unprivileged user may lock for each processor (perf_event_mlock_kb, 516) */

struct perf_ring {
  int fd; /* of the ring's event */
  struct perf_event_mmap_page *page;
};

struct perf_source {
  struct perf_event_choices choices;
  uint64_t period, samples;
  bool own_clock;  /* times are CLOCK_MONOTONIC_RAW's: the kernel does not publish its clock's relation to the cycle
                      counter */
  bool tells_lost; /* the kernel's count of lost samples can be read */
  bool kernel_too; /* the event can't exclude the kernel's accesses */
  int pid;
  size_t ring_bytes;
  VECTOR(int) fds; /* of all events */
  VECTOR(struct perf_ring) rings;
  struct os_clocks origin;
  uint8_t *copy; /* of a ring's records, contiguous where they wrap round its end */
  struct perf_records records;
  void (*take)(void *context, const struct perf_sample *sample);
  void *context;
};

static int open_event(const struct perf_event_attr *attributes, int pid, int processor, int group) {
  return (int)syscall(SYS_perf_event_open, attributes, pid, processor, group, PERF_FLAG_FD_CLOEXEC);
}

static struct perf_event_attr attributes_of(const struct perf_source *source, const struct perf_event_choice *event) {
  struct perf_event_attr attributes = {.type = event->type,
                                       .size = sizeof attributes,
                                       .config = event->config[0],
                                       .config1 = event->config[1],
                                       .config2 = event->config[2],
                                       .precise_ip = event->precise & 3u,
                                       .disabled = 1,
                                       .enable_on_exec = 1,
                                       .inherit = 1,
                                       .exclude_kernel = !source->kernel_too,
                                       .exclude_hv = !source->kernel_too};
  if (!event->samples)
    return attributes;
  attributes.sample_period = source->period * event->period_factor;
  attributes.sample_type = PERF_SAMPLE_BASE | (source->choices.detail ? PERF_SAMPLE_DETAIL : 0);
  attributes.read_format = source->tells_lost ? PERF_FORMAT_LOST : 0;
  attributes.watermark = 1;
  attributes.wakeup_watermark = (uint32_t)(source->ring_bytes / 2);
  attributes.use_clockid = source->own_clock;
  attributes.clockid = source->own_clock ? CLOCK_MONOTONIC_RAW : 0;
  return attributes;
}

static struct perf_event_mmap_page *map_ring(const struct perf_source *source, int fd) {
  void *memory = mmap(NULL, source->ring_bytes + os_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Does the kernel count lost samples? And does it publish its clock's relation to the cycle counter? Not under a
   hypervisor that has its own clock. Times of the kernel's clock are better: PEBS takes them with the access, while
   another clock is read at the interrupt. */
static bool probe(struct perf_source *source) {
  const struct perf_event_choice faults = {
      .type = PERF_TYPE_SOFTWARE, .config = {PERF_COUNT_SW_PAGE_FAULTS}, .period_factor = 1, .samples = true};
  struct perf_event_attr attributes = attributes_of(source, &faults);
  attributes.inherit = 0;
  attributes.read_format = PERF_FORMAT_LOST;
  int fd = open_event(&attributes, 0, -1, -1);
  source->tells_lost = fd >= 0;
  if (fd < 0) {
    attributes.read_format = 0;
    fd = open_event(&attributes, 0, -1, -1);
  }
  struct perf_event_mmap_page *page = fd < 0 ? NULL : map_ring(source, fd);
  bool published = page && page->cap_user_time_zero && page->time_mult && page->time_shift < 64;
  if (published)
    source->records.clock = (struct perf_clock){
        .cycles = true, .zero = page->time_zero, .multiplier = page->time_mult, .shift = page->time_shift};
  if (page)
    munmap(page, source->ring_bytes + os_page_bytes());
  if (fd >= 0)
    close(fd);
  return published;
}

/* The first event of a processor that samples has the ring; the others write to it. */
static int add_ring(struct perf_source *source, int fd) {
  struct perf_event_mmap_page *page = map_ring(source, fd);
  struct perf_ring *ring = page ? vector_add(&source->rings) : NULL;
  if (!ring)
    return -1;
  *ring = (struct perf_ring){fd, page};
  return 0;
}

/* Opens all events on one processor. Returns 0, also for a processor that does not exist, or -1 with errno; *at: of
   which event. */
static int open_processor(struct perf_source *source, int processor, uint32_t *at) {
  int group = -1, ring = -1;
  for (*at = 0; *at < source->choices.count; ++*at) {
    const struct perf_event_choice *event = &source->choices.events[*at];
    struct perf_event_attr attributes = attributes_of(source, event);
    int fd = open_event(&attributes, source->pid, processor, group);
    int *place = fd < 0 ? NULL : vector_add(&source->fds);
    if (!place)
      return fd < 0 && errno == ENODEV && *at == 0 ? 0 : -1;
    *place = fd;
    group = event->samples ? -1 : fd;
    if (!event->samples)
      continue;
    if (ring < 0 ? add_ring(source, fd) != 0 : ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring) != 0)
      return -1;
    ring = ring < 0 ? fd : ring;
  }
  return 0;
}

static void close_events(struct perf_source *source) {
  for (size_t i = 0; i < source->rings.count; i++)
    munmap(source->rings.at[i].page, source->ring_bytes + os_page_bytes());
  for (size_t i = 0; i < source->fds.count; i++)
    close(source->fds.at[i]);
  source->rings.count = source->fds.count = 0;
}

/* Opens the events on all processors; where the event can't exclude the kernel's accesses (IBS of older kernels),
   includes them. */
static int open_processors(struct perf_source *source, struct error *error) {
  long processors = sysconf(_SC_NPROCESSORS_CONF);
  uint32_t at = 0;
  for (int i = 0; i < processors; i++) {
    if (open_processor(source, i, &at) == 0)
      continue;
    int why = errno;
    close_events(source);
    if (!source->kernel_too && source->choices.detail && (why == EINVAL || why == EOPNOTSUPP)) {
      source->kernel_too = true;
      return open_processors(source, error);
    }
    errno = why;
    return error_errno(error, source->choices.events[at].name, "can't be sampled");
  }
  return source->rings.count ? 0 : error_set(error, source->choices.events[0].name, "no processor has it");
}

int perf_source_open(struct perf_source **out, enum sampling_kind kind, uint64_t period, int pid, struct error *error) {
  struct perf_source *source = *out = calloc(1, sizeof *source);
  if (!source)
    return error_set(error, "--accesses", "out of memory");
  source->pid = pid;
  source->ring_bytes = RING_PAGES * os_page_bytes();
  source->period = period ? period : kind == SAMPLING_MEMORY ? SAMPLING_MEMORY_PERIOD : SAMPLING_FAULTS_PERIOD;
  source->copy = malloc(source->ring_bytes);
  int result = source->copy ? perf_pmu_choose(&source->choices, PERF_PMU_ROOT, kind, error)
                            : error_set(error, "--accesses", "out of memory");
  source->own_clock = !probe(source);
  source->origin = os_read_clocks(CLOCK_MONOTONIC_RAW);
  source->records.detail = source->choices.detail;
  source->records.level = ACCESS_LEVEL_PAGE_FAULT;
  if (result == 0)
    result = open_processors(source, error);
  if (result != 0) {
    perf_source_close(source);
    *out = NULL;
  }
  return result;
}

const char *perf_source_event(const struct perf_source *source, uint32_t *at, uint64_t *period) {
  while (*at < source->choices.count && !source->choices.events[*at].samples)
    ++*at;
  if (*at == source->choices.count)
    return NULL;
  *period = source->period * source->choices.events[*at].period_factor;
  return source->choices.events[(*at)++].name;
}

int perf_source_descriptor(const struct perf_source *source, uint32_t *at) {
  return *at < source->rings.count ? source->rings.at[(*at)++].fd : -1;
}

static void take(void *context, const struct perf_sample *sample) {
  struct perf_source *source = context;
  source->samples++;
  source->take(source->context, sample);
}

/* The records are copied, as one may wrap round the ring's end, and as the kernel continues to write once the room is
   free. */
static void read_ring(struct perf_source *source, struct perf_event_mmap_page *page) {
  const uint8_t *data = (const uint8_t *)page + page->data_offset;
  uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail;
  size_t count = head - tail, at = tail % source->ring_bytes;
  if (count == 0 || count > source->ring_bytes)
    return;
  size_t first = source->ring_bytes - at < count ? source->ring_bytes - at : count;
  memcpy(source->copy, data + at, first);
  memcpy(source->copy + first, data, count - first);
  __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
  perf_records_take(&source->records, source->copy, count);
}

/* Reads both clocks, and their ratio since the start: over the age of a ring's records, milliseconds, the ratio's error
   is below that of the reading. */
static void read_clocks(struct perf_source *source) {
  struct perf_clock *clock = &source->records.clock;
  struct os_clocks now = os_read_clocks(CLOCK_MONOTONIC_RAW);
  clock->now_ns = now.ns;
  clock->now_cycles = now.cycles;
  clock->cycles_per_ns = os_clocks_hz(source->origin, now) / 1e9;
}

uint64_t perf_source_read(struct perf_source *source, void (*to)(void *context, const struct perf_sample *sample),
                          void *context) {
  uint64_t before = source->samples;
  source->take = to;
  source->context = context;
  source->records.take = take;
  source->records.context = source;
  if (source->own_clock)
    read_clocks(source);
  for (size_t i = 0; i < source->rings.count; i++)
    read_ring(source, source->rings.at[i].page);
  return source->samples - before;
}

uint64_t perf_source_lost(const struct perf_source *source, bool asked) {
  uint64_t reported = source->records.lost + source->records.damaged, lost = source->records.damaged;
  for (size_t i = 0; asked && source->tells_lost && i < source->fds.count; i++) {
    uint64_t values[2]; /* events counted, samples lost */
    if (read(source->fds.at[i], values, sizeof values) == sizeof values)
      lost += values[1];
  }
  return lost > reported ? lost : reported;
}

uint64_t perf_source_throttled(const struct perf_source *source) {
  return source->records.throttled;
}

void perf_source_close(struct perf_source *source) {
  if (!source)
    return;
  close_events(source);
  free(source->fds.at);
  free(source->rings.at);
  free(source->copy);
  free(source);
}
