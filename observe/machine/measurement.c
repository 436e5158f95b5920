/* SPDX-License-Identifier: MIT */
#include "observe/machine/measurement.h"

#include "observe/machine/chains.h"
#include "observe/machine/code.h"
#include "observe/machine/kernel_costs.h"
#include "observe/machine/samples.h"
#include "observe/machine/tlbs.h"

#include <stdlib.h>

enum {
  CHAIN_SETS = PLAN_MAX * 3,
  WARM_BYTES_MAX = 32 << 20, /* a larger set is not in a cache anyway */
  LOADS_NEAR = 1 << 16,      /* of a sample: about 0.2 ms where all hit */
  LOADS_FAR = 1 << 14,       /* and about 2 ms where none does */
  NEAR_LINES = 1 << 15,
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
  const struct plan *plan;
  struct chain_samples sets[CHAIN_SETS]; /* working sets; then for each set of OS pages: one line in each OS page, and
                                            as many lines side by side */
  size_t set_count;
  struct samples code[CODE_COUNT], kernel[KERNEL_FIGURES];
  unsigned kernel_refusals;
};

static int make_chains(struct measurement *all) {
  const struct plan *plan = all->plan;
  for (size_t index = 0; index < plan->working_sets; index++, all->set_count++) {
    all->sets[all->set_count].of_working_set = true;
    if (chains_make(&all->sets[all->set_count].chains, CHAINS_EVERY_LINE,
                    plan->working_set_bytes[index] / CHAINS_LINE_BYTES, index) != 0)
      return -1;
  }
  for (size_t index = 0; index < 2 * plan->os_page_sets; index++, all->set_count++)
    if (chains_make(&all->sets[all->set_count].chains, index % 2 ? CHAINS_EVERY_LINE : CHAINS_ONE_PER_PAGE,
                    plan->os_pages[index / 2], index) != 0)
      return -1;
  return 0;
}

static void sample_ring(struct chain_samples *set, enum chains_order order, size_t loads) {
  bool near = order == CHAINS_NEAR;
  uint64_t begin = samples_cpu_ns();
  chains_walk_dependent(&set->chains, order, loads);
  uint64_t middle = samples_cpu_ns();
  chains_walk_independent(&set->chains, order, loads);
  uint64_t end = samples_cpu_ns();
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
  uint64_t begin = samples_cpu_ns();
  chains_walk_stream(&set->chains, loads);
  samples_add(&set->stream, (double)(samples_cpu_ns() - begin) / (double)loads);
}

static void sample_code(struct measurement *all, size_t index) {
  codes[index].run(code_iterations[index] / 8); /* warms the caches */
  uint64_t begin = samples_cpu_ns();
  codes[index].run(code_iterations[index]);
  samples_add(&all->code[index], (double)(samples_cpu_ns() - begin) / code_iterations[index]);
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
  for (size_t index = CODE_FILL; index < CODE_COUNT; index += CODE_COPY - CODE_FILL)
    json_object_set_new(object, codes[index].name,
                        json_pack("{s:o, s:o}", "line_ns", quantiles_json(&all->code[index - 1], 1), "byte_ns",
                                  quantiles_json(&all->code[index], CODE_STRING_BYTES)));
  return object;
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
  const struct plan *plan = all->plan;
  json_t *sets = json_array(), *pages = json_array();
  for (size_t index = 0; index < plan->working_sets; index++) {
    json_t *set = chain_json(&all->sets[index]);
    json_object_set_new(set, "near_dependent_ns", quantiles_json(&all->sets[index].near_dependent, 1));
    json_object_set_new(set, "near_independent_ns", quantiles_json(&all->sets[index].near_independent, 1));
    json_object_set_new(set, "stream_ns", quantiles_json(&all->sets[index].stream, 1));
    json_object_set_new(set, "bytes", json_integer((json_int_t)plan->working_set_bytes[index]));
    json_array_append_new(sets, set);
  }
  for (size_t index = 0; index < plan->os_page_sets; index++) {
    struct chain_samples *pair = &all->sets[plan->working_sets + 2 * index];
    json_array_append_new(pages, json_pack("{s:I, s:o, s:o}", "os_pages", (json_int_t)plan->os_pages[index],
                                           "one_per_os_page", chain_json(pair), "side_by_side", chain_json(pair + 1)));
  }
  return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", 4, "rounds", (int)plan->rounds,
                   "independent_chains", CHAINS_WALKERS, "line_bytes", CHAINS_LINE_BYTES, "tlbs", tlbs_json(),
                   "working_sets", sets, "os_page_sets", pages, "code", code_json(all), "strings", strings_json(all),
                   "kernel", kernel_json(all));
}

static void measure_rounds(struct measurement *all) {
  for (unsigned round = 0; round < all->plan->rounds; round++) {
    for (size_t index = 0; index < all->set_count; index++)
      sample_chains(&all->sets[index]);
    for (size_t index = 0; index < CODE_COUNT; index++)
      sample_code(all, index);
    sample_kernel(all);
  }
}

json_t *measurement_make(const struct plan *plan, struct error *error) {
  struct measurement *all = calloc(1, sizeof *all);
  if (!all || (all->plan = plan, make_chains(all)) != 0) {
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
