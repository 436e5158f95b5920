/* SPDX-License-Identifier: MIT */
/* A measurement of this machine: every figure is sampled once in each round, so that a disturbance affects all of them
   in the same way.

   Job: what is measured, the rounds, the result as JSON. Not its job: using the figures
   (analysis/heaptape/results/model/). */
#pragma once

#include "core/base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { MEASURED_MOST = 16 };

struct measured {
  size_t working_set_bytes[MEASURED_MOST], working_sets; /* caches: chains over this many bytes */
  size_t os_pages[MEASURED_MOST],
      os_page_sets; /* TLBs: one line in each of this many OS pages, and as many side by side */
  unsigned rounds;
  const char *library; /* to load, for the price of the dynamic linker's instructions; NULL: not measured */
};

/* Measures. Returns the result, to be released with json_decref; or NULL with an error: no memory. */
json_t *measurement_make(const struct measured *measured, struct error *error);

/* Returns only the figures known without measuring: "tlbs". */
json_t *measurement_sizes(void);

/* Samples of one figure, and their quantiles.

   Job: keeps the values of repeated short samples, and computes the minimum, the quartiles and the median. Not
   thread-safe. */

enum { SAMPLES_MAX = 1024 };

struct samples {
  size_t count;
  double values[SAMPLES_MAX];
};

struct quantiles {
  double least, quarter, median, three_quarters;
};

/* Adds a value; beyond SAMPLES_MAX it is left out. */
void samples_add(struct samples *samples, double value);

/* Sorts the samples. A quantile between two of them is interpolated. Without samples all quantiles are NaN. */
struct quantiles samples_quantiles(struct samples *samples);

/* The cost to a process of the kernel's services: page faults and the system calls that allocators make.

   Job: one sample of each, in ns of the thread's CPU time, kernel time included, per fault or call. Invariant: all
   memory is given back. Not thread-safe: no other thread may move the break meanwhile. */

/* X(name): a figure of struct kernel_costs, NAME_ns.
   first_touch: a fault on a fresh OS page of 4 KiB. huge_touch: of 2 MiB, if the kernel gives one. copied_page: on a
   page of a private file mapping that is written, as the data of a library. unmapped_page: giving a fresh page back.
   Calls: getppid, the cheapest; mmap and munmap of 64 KiB that are not touched; mremap that doubles 64 KiB; madvise
   (MADV_DONTNEED) of one touched OS page; brk that moves the break by 128 KiB. */
#define KERNEL_COSTS(X)                                                                                                \
  X(first_touch) X(huge_touch) X(copied_page) X(unmapped_page) X(getppid) X(mmap) X(munmap) X(mremap) X(madvise) X(brk)

struct kernel_costs {
#define KERNEL_COST(name) double name##_ns;
  KERNEL_COSTS(KERNEL_COST)
#undef KERNEL_COST
};

/* Takes one sample of each. Returns 0, or -1 with errno: the kernel refused a call. */
int kernel_costs_sample(struct kernel_costs *costs);

/* The processor's TLBs for data and OS pages of 4 KiB, as CPUID reports them.

   Job: reads AMD's leaves 0x80000005 and 6, and Intel's leaf 0x18. On other processors no sizes are known. */

enum { TLBS_MAX = 2 };

struct tlb_size {
  uint32_t entries, ways;
};

/* Fills in the first level, and the second if there is one. Returns how many are known. */
unsigned tlbs_read(struct tlb_size sizes[TLBS_MAX]);
