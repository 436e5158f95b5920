/* SPDX-License-Identifier: MIT */
#include "observe/machine/measurement.h"

#include "core/base/json.h"
#include "core/base/os.h"
#include "observe/machine/chains.h"
#include "observe/machine/code.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  CHAIN_SETS = MEASURED_MOST * 3,
  WARM_BYTES_MAX = 32 << 20, /* a larger set is not in a cache anyway */
  LOADS_NEAR = 1 << 16,      /* of a sample: about 0.2 ms where all hit */
  LOADS_FAR = 1 << 14,       /* and about 2 ms where none does */
  NEAR_LINES = 1 << 15,
  FLUSH_LOADS = 1 << 20, /* in order of address, over 64 MiB of the largest set */
};

/* Iterations of a sample of about 0.2 ms. */
static const unsigned code_iterations[CODE_COUNT] = {12000, 60000, 60000, 6000, 8000, 1000, 8000, 1000};

struct chain_samples {
  struct chains chains;
  bool of_working_set; /* also walked near and in order of address */
  struct samples dependent, independent, near_dependent, near_independent, stream;
};

static const char *const kernel_names[] = {
#define KERNEL_COST(name) #name,
    KERNEL_COSTS(KERNEL_COST)
#undef KERNEL_COST
};
enum { KERNEL_FIGURES = sizeof kernel_names / sizeof *kernel_names };

struct measurement {
  const struct measured *measured;
  struct chain_samples sets[CHAIN_SETS]; /* working sets; then for each set of OS pages: one line in each OS page, and
                                            as many lines side by side */
  size_t set_count;
  struct samples code[CODE_COUNT], kernel[KERNEL_FIGURES], lookups_warm, lookups_cold, mapping_warm, mapping_cold;
  long mapping_faults;
  unsigned kernel_refusals;
};

static int make_chains(struct measurement *all) {
  const struct measured *measured = all->measured;
  for (size_t index = 0; index < measured->working_sets; index++, all->set_count++) {
    all->sets[all->set_count].of_working_set = true;
    if (chains_make(&all->sets[all->set_count].chains, CHAINS_EVERY_LINE,
                    measured->working_set_bytes[index] / CHAINS_LINE_BYTES, index) != 0)
      return -1;
  }
  for (size_t index = 0; index < 2 * measured->os_page_sets; index++, all->set_count++)
    if (chains_make(&all->sets[all->set_count].chains, index % 2 ? CHAINS_EVERY_LINE : CHAINS_ONE_PER_PAGE,
                    measured->os_pages[index / 2], index) != 0)
      return -1;
  return 0;
}

static void sample_ring(struct chain_samples *set, enum chains_order order, size_t loads) {
  bool near = order == CHAINS_NEAR;
  uint64_t begin = os_thread_cpu_ns();
  chains_walk_dependent(&set->chains, order, loads);
  uint64_t middle = os_thread_cpu_ns();
  chains_walk_independent(&set->chains, order, loads);
  uint64_t end = os_thread_cpu_ns();
  samples_add(near ? &set->near_dependent : &set->dependent, (double)(middle - begin) / (double)loads);
  samples_add(near ? &set->near_independent : &set->independent, (double)(end - middle) / (double)loads);
}

static void sample_chains(struct chain_samples *set) {
  size_t nodes = set->chains.nodes, loads = nodes <= NEAR_LINES ? LOADS_NEAR : LOADS_FAR;
  if (nodes * CHAINS_LINE_BYTES <= WARM_BYTES_MAX)
    chains_walk_independent(&set->chains, CHAINS_FAR, nodes);
  sample_ring(set, CHAINS_FAR, loads);
  if (!set->of_working_set)
    return;
  sample_ring(set, CHAINS_NEAR, loads);
  uint64_t begin = os_thread_cpu_ns();
  chains_walk_stream(&set->chains, loads);
  samples_add(&set->stream, (double)(os_thread_cpu_ns() - begin) / (double)loads);
}

static void sample_code(struct measurement *all, size_t index) {
  codes[index].run(code_iterations[index] / 8); /* warms the caches */
  uint64_t begin = os_thread_cpu_ns();
  codes[index].run(code_iterations[index]);
  samples_add(&all->code[index], (double)(os_thread_cpu_ns() - begin) / code_iterations[index]);
}

static void sample_kernel(struct measurement *all) {
  struct kernel_costs costs;
  if (kernel_costs_sample(&costs) != 0) {
    all->kernel_refusals++;
    return;
  }
  const double values[] = {
#define KERNEL_COST(name) costs.name##_ns,
      KERNEL_COSTS(KERNEL_COST)
#undef KERNEL_COST
  };
  for (size_t index = 0; index < KERNEL_FIGURES; index++)
    samples_add(&all->kernel[index], values[index]);
}

/* After the caches were filled with other lines, and just after that. */
static void sample_loading(struct measurement *all) {
  const char *library = all->measured->library;
  struct loading cold[2], warm[2];
  for (int with_lookups = 0; with_lookups < 2; with_lookups++) {
    chains_walk_stream(&all->sets[all->measured->working_sets - 1].chains, FLUSH_LOADS);
    cold[with_lookups] = loading_sample(library, with_lookups);
    warm[with_lookups] = loading_sample(library, with_lookups);
  }
  samples_add(&all->lookups_cold, cold[1].cpu_ns - cold[0].cpu_ns);
  samples_add(&all->lookups_warm, warm[1].cpu_ns - warm[0].cpu_ns);
  samples_add(&all->mapping_cold, cold[0].cpu_ns);
  samples_add(&all->mapping_warm, warm[0].cpu_ns);
  all->mapping_faults = warm[0].faults;
}

static json_t *quantiles_json(struct samples *samples, double divisor) {
  if (samples->count == 0)
    return json_null();
  struct quantiles found = samples_quantiles(samples);
  return json_pack("{s:f, s:f, s:f, s:f, s:I}", "least", found.least / divisor, "quarter", found.quarter / divisor,
                   "median", found.median / divisor, "three_quarters", found.three_quarters / divisor, "samples",
                   (json_int_t)samples->count);
}

static json_t *chain_json(struct chain_samples *set) {
  return json_pack("{s:I, s:b, s:o, s:o}", "lines", (json_int_t)set->chains.nodes, "huge_pages", set->chains.huge_pages,
                   "dependent_ns", quantiles_json(&set->dependent, 1), "independent_ns",
                   quantiles_json(&set->independent, 1));
}

static json_t *code_json(struct measurement *all) {
  json_t *object = json_object();
  double cycles = CODE_CYCLES_EACH;
  json_object_set_new(object, "cycle_ns", quantiles_json(&all->code[CODE_CYCLE], cycles));
  for (size_t index = CODE_ARITHMETIC; index < CODE_INSTRUCTIONS; index++) {
    double instructions = code_instructions(&codes[index]);
    json_t *figure = instructions > 0 ? quantiles_json(&all->code[index], instructions) : json_null();
    json_t *each = instructions > 0 ? json_real(instructions) : json_null();
    json_object_set_new(object, codes[index].name,
                        json_pack("{s:o, s:o}", "instructions_per_iteration", each, "instruction_ns", figure));
  }
  return object;
}

/* The cost of a repeated string instruction: of one over a single line, and for each byte of one over many. */
static json_t *strings_json(struct measurement *all) {
  json_t *object = json_pack("{s:i, s:i}", "line_bytes", CODE_STRING_LINE_BYTES, "bytes", CODE_STRING_BYTES);
  for (size_t index = CODE_FILL; index <= CODE_COPY; index += CODE_COPY - CODE_FILL)
    json_object_set_new(object, codes[index].name,
                        json_pack("{s:o, s:o}", "line_ns", quantiles_json(&all->code[index - 1], 1), "byte_ns",
                                  quantiles_json(&all->code[index], CODE_STRING_BYTES)));
  return object;
}

static json_t *loading_json(struct measurement *all) {
  double instructions = all->measured->library ? loading_instructions(all->measured->library) : -1;
  if (!(instructions > 0))
    return json_null();
  return json_pack("{s:f, s:o, s:o, s:i, s:I, s:o, s:o}", "instructions", instructions, "warm_ns",
                   quantiles_json(&all->lookups_warm, instructions), "cold_ns",
                   quantiles_json(&all->lookups_cold, instructions), "calls", LOADING_CALLS, "faults",
                   (json_int_t)all->mapping_faults, "mapping_warm_ns", quantiles_json(&all->mapping_warm, 1),
                   "mapping_cold_ns", quantiles_json(&all->mapping_cold, 1));
}

static json_t *kernel_json(struct measurement *all) {
  json_t *object = json_object();
  for (size_t index = 0; index < KERNEL_FIGURES; index++) {
    char name[64];
    snprintf(name, sizeof name, "%s_ns", kernel_names[index]);
    json_object_set_new(object, name, quantiles_json(&all->kernel[index], 1));
  }
  return object;
}

static json_t *tlbs_json(void) {
  struct tlb_size sizes[TLBS_MAX];
  unsigned count = tlbs_read(sizes);
  json_t *array = json_array();
  for (unsigned index = 0; index < count; index++)
    json_array_append_new(array, json_pack("{s:I, s:I}", "entries", (json_int_t)sizes[index].entries, "ways",
                                           (json_int_t)sizes[index].ways));
  return array;
}

json_t *measurement_sizes(void) {
  return json_pack("{s:o}", "tlbs", tlbs_json());
}

static json_t *result_json(struct measurement *all) {
  const struct measured *measured = all->measured;
  json_t *sets = json_array(), *pages = json_array();
  for (size_t index = 0; index < measured->working_sets; index++) {
    json_t *set = chain_json(&all->sets[index]);
    json_object_set_new(set, "near_dependent_ns", quantiles_json(&all->sets[index].near_dependent, 1));
    json_object_set_new(set, "near_independent_ns", quantiles_json(&all->sets[index].near_independent, 1));
    json_object_set_new(set, "stream_ns", quantiles_json(&all->sets[index].stream, 1));
    json_set_count(set, "bytes", measured->working_set_bytes[index]);
    json_array_append_new(sets, set);
  }
  for (size_t index = 0; index < measured->os_page_sets; index++) {
    struct chain_samples *pair = &all->sets[measured->working_sets + 2 * index];
    json_array_append_new(pages, json_pack("{s:I, s:o, s:o}", "os_pages", (json_int_t)measured->os_pages[index],
                                           "one_per_os_page", chain_json(pair), "side_by_side", chain_json(pair + 1)));
  }
  return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", 6, "rounds",
                   (int)measured->rounds, "independent_chains", CHAINS_WALKERS, "line_bytes", CHAINS_LINE_BYTES, "tlbs",
                   tlbs_json(), "working_sets", sets, "os_page_sets", pages, "code", code_json(all), "strings",
                   strings_json(all), "loading", loading_json(all), "kernel", kernel_json(all));
}

static void measure_rounds(struct measurement *all) {
  for (unsigned round = 0; round < all->measured->rounds; round++) {
    for (size_t index = 0; index < all->set_count; index++)
      sample_chains(&all->sets[index]);
    for (size_t index = 0; index < CODE_COUNT; index++)
      sample_code(all, index);
    if (all->measured->library)
      sample_loading(all);
    sample_kernel(all);
  }
}

json_t *measurement_make(const struct measured *measured, struct error *error) {
  struct measurement *all = calloc(1, sizeof *all);
  if (!all || (all->measured = measured, make_chains(all)) != 0) {
    error_set(error, "chains", "no memory for a working set");
    free(all);
    return NULL;
  }
  measure_rounds(all);
  json_t *result = result_json(all);
  for (size_t index = 0; index < all->set_count; index++)
    chains_free(&all->sets[index].chains);
  if (!result)
    error_set(error, "result", "no memory");
  free(all);
  return result;
}

void samples_add(struct samples *samples, double value) {
  if (samples->count < SAMPLES_MAX)
    samples->values[samples->count++] = value;
}

static int by_value(const void *one, const void *two) {
  double a = *(const double *)one, b = *(const double *)two;
  return (a > b) - (a < b);
}

static double quantile(const struct samples *sorted, double share) {
  if (sorted->count == 0)
    return NAN;
  double place = share * (double)(sorted->count - 1);
  size_t below = (size_t)place, above = below + 1 < sorted->count ? below + 1 : below;
  return sorted->values[below] + (place - (double)below) * (sorted->values[above] - sorted->values[below]);
}

struct quantiles samples_quantiles(struct samples *samples) {
  qsort(samples->values, samples->count, sizeof samples->values[0], by_value);
  return (struct quantiles){quantile(samples, 0), quantile(samples, 0.25), quantile(samples, 0.5),
                            quantile(samples, 0.75)};
}

enum { OS_PAGE_BYTES = 4096, TOUCHED_PAGES = 512, CALLS = 128, MAPPING_BYTES = 64 << 10, BREAK_BYTES = 128 << 10 };

static double ns_each(uint64_t begin_ns, uint64_t end_ns, unsigned count) {
  return (double)(end_ns - begin_ns) / count;
}

static void *map(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void touch(char *memory) {
  for (size_t page = 0; page < TOUCHED_PAGES; page++)
    ((volatile char *)memory)[page * OS_PAGE_BYTES] = 1;
}

static int sample_faults(struct kernel_costs *costs) {
  size_t bytes = (size_t)TOUCHED_PAGES * OS_PAGE_BYTES;
  char *memory = map(bytes);
  if (memory == MAP_FAILED)
    return -1;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  uint64_t begin = os_thread_cpu_ns();
  touch(memory);
  uint64_t touched = os_thread_cpu_ns();
  int failed = 0;
  for (size_t page = 0; page < CALLS; page++)
    failed |= madvise(memory + page * OS_PAGE_BYTES, OS_PAGE_BYTES, MADV_DONTNEED);
  uint64_t advised = os_thread_cpu_ns();
  failed |= munmap(memory, bytes);
  uint64_t unmapped = os_thread_cpu_ns();
  costs->first_touch_ns = ns_each(begin, touched, TOUCHED_PAGES);
  costs->madvise_ns = ns_each(touched, advised, CALLS);
  costs->unmapped_page_ns = ns_each(advised, unmapped, TOUCHED_PAGES - CALLS);
  return failed;
}

static int sample_huge_pages(struct kernel_costs *costs) {
  enum { PAGES = 2 };
  size_t bytes = (size_t)(PAGES + 1) * HUGE_PAGE_BYTES;
  char *memory = map(bytes);
  if (memory == MAP_FAILED)
    return -1;
  madvise(memory, bytes, MADV_HUGEPAGE);
  volatile char *first = memory + (-(uintptr_t)memory % HUGE_PAGE_BYTES);
  uint64_t begin = os_thread_cpu_ns();
  for (size_t page = 0; page < PAGES; page++)
    first[page * HUGE_PAGE_BYTES] = 1;
  costs->huge_touch_ns = ns_each(begin, os_thread_cpu_ns(), PAGES);
  return munmap(memory, bytes);
}

/* The file is in memory, as a library's is that was loaded before. */
static int sample_copies(struct kernel_costs *costs) {
  size_t bytes = (size_t)TOUCHED_PAGES * OS_PAGE_BYTES;
  int file = memfd_create("heaptape-machine", MFD_CLOEXEC);
  if (file < 0)
    return -1;
  char *shared = MAP_FAILED, *copied = MAP_FAILED;
  if (ftruncate(file, (off_t)bytes) == 0) {
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    copied = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  }
  close(file);
  if (shared != MAP_FAILED && copied != MAP_FAILED) {
    touch(shared);
    uint64_t begin = os_thread_cpu_ns();
    touch(copied);
    costs->copied_page_ns = ns_each(begin, os_thread_cpu_ns(), TOUCHED_PAGES);
  }
  int failed = shared == MAP_FAILED || munmap(shared, bytes);
  return copied == MAP_FAILED || munmap(copied, bytes) || failed ? -1 : 0;
}

static int sample_mappings(struct kernel_costs *costs) {
  char *memory[CALLS];
  int failed = 0;
  uint64_t begin = os_thread_cpu_ns();
  for (size_t index = 0; index < CALLS; index++)
    failed |= (memory[index] = map(MAPPING_BYTES)) == MAP_FAILED;
  uint64_t mapped = os_thread_cpu_ns();
  if (failed)
    return -1;
  for (size_t index = 0; index < CALLS; index++) {
    char *moved = mremap(memory[index], MAPPING_BYTES, (size_t)2 * MAPPING_BYTES, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
      return -1;
    memory[index] = moved;
  }
  uint64_t remapped = os_thread_cpu_ns();
  for (size_t index = 0; index < CALLS; index++)
    failed |= munmap(memory[index], (size_t)2 * MAPPING_BYTES);
  uint64_t unmapped = os_thread_cpu_ns();
  costs->mmap_ns = ns_each(begin, mapped, CALLS);
  costs->mremap_ns = ns_each(mapped, remapped, CALLS);
  costs->munmap_ns = ns_each(remapped, unmapped, CALLS);
  return failed;
}

static int sample_calls(struct kernel_costs *costs) {
  uint64_t begin = os_thread_cpu_ns();
  for (unsigned call = 0; call < CALLS; call++)
    syscall(SYS_getppid);
  uint64_t asked = os_thread_cpu_ns();
  for (unsigned call = 0; call < CALLS; call++)
    if (sbrk(call < CALLS / 2 ? BREAK_BYTES : -BREAK_BYTES) == (void *)-1)
      return -1;
  uint64_t moved = os_thread_cpu_ns();
  costs->getppid_ns = ns_each(begin, asked, CALLS);
  costs->brk_ns = ns_each(asked, moved, CALLS);
  return 0;
}

int kernel_costs_sample(struct kernel_costs *costs) {
  return sample_faults(costs) || sample_huge_pages(costs) || sample_copies(costs) || sample_mappings(costs) ||
                 sample_calls(costs)
             ? -1
             : 0;
}

#if defined(__x86_64__)
#include <cpuid.h>

/* The first four letters of the maker, as CPUID has them. */
enum { AMD = 0x68747541, HYGON = 0x6f677948 };
enum { AMD_FIRST = 0x80000005u, AMD_SECOND = 0x80000006u, INTEL = 0x18 };

/* AMD's codes of associativity in leaf 0x80000006; 0: unknown code. */
static uint32_t amd_ways(uint32_t code, uint32_t entries) {
  static const uint32_t ways[16] = {[1] = 1,  [2] = 2,   [3] = 3,   [4] = 4,   [5] = 6,   [6] = 8,
                                    [8] = 16, [10] = 32, [11] = 48, [12] = 64, [13] = 96, [14] = 128};
  return code == 15 ? entries : ways[code];
}

static unsigned read_amd(struct tlb_size sizes[TLBS_MAX]) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(AMD_FIRST, &a, &b, &c, &d))
    return 0;
  uint32_t entries = b >> 16 & 0xff, ways = b >> 24;
  if (entries == 0 || ways == 0)
    return 0;
  sizes[0] = (struct tlb_size){entries, ways == 0xff ? entries : ways};
  if (!__get_cpuid(AMD_SECOND, &a, &b, &c, &d))
    return 1;
  entries = b >> 16 & 0xfff;
  ways = amd_ways(b >> 28, entries);
  if (entries == 0 || ways == 0)
    return 1;
  sizes[1] = (struct tlb_size){entries, ways};
  return 2;
}

/* Reads for each level the TLB for data (type 1) or for both (3) that has 4 KiB pages; in the first level the one for
   loads (4), where it has a separate one for stores. */
static unsigned read_intel(struct tlb_size sizes[TLBS_MAX]) {
  uint32_t last, b, c, d;
  if (!__get_cpuid_count(INTEL, 0, &last, &b, &c, &d))
    return 0;
  struct tlb_size found[TLBS_MAX] = {{0}};
  for (uint32_t leaf = 0; leaf <= last && leaf < 64; leaf++) {
    uint32_t a, type, level;
    if (!__get_cpuid_count(INTEL, leaf, &a, &b, &c, &d))
      break;
    type = d & 31;
    level = d >> 5 & 7;
    if ((b & 1) && (type == 1 || type == 3 || type == 4) && level >= 1 && level <= TLBS_MAX) {
      uint32_t ways = b >> 16, entries = ways * c;
      if (entries > found[level - 1].entries)
        found[level - 1] = (struct tlb_size){entries, ways};
    }
  }
  unsigned count = 0;
  while (count < TLBS_MAX && found[count].entries > 0) {
    sizes[count] = found[count];
    count++;
  }
  return count;
}

unsigned tlbs_read(struct tlb_size sizes[TLBS_MAX]) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d))
    return 0;
  return b == AMD || b == HYGON ? read_amd(sizes) : read_intel(sizes);
}
#else
unsigned tlbs_read(struct tlb_size sizes[TLBS_MAX]) {
  (void)sizes;
  return 0;
}
#endif
