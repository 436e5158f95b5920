/* SPDX-License-Identifier: MIT */
/* The cost to a process of the kernel's services: page faults and the system calls that allocators make.

   Job: one sample of each, in ns of the thread's CPU time, kernel time included, per fault or call. Invariant: all
   memory is given back. Not thread-safe: no other thread may move the break meanwhile. */
#pragma once

/* X(name): a figure of struct kernel_costs, NAME_ns.
   first_touch: a fault on a fresh OS page of 4 KiB. unmapped_page: giving such a page back. Calls: getppid, the
   cheapest; mmap and munmap of 64 KiB that are not touched; mremap that doubles 64 KiB; madvise (MADV_DONTNEED) of one
   touched OS page; brk that moves the break by 128 KiB. */
#define KERNEL_COSTS(X) X(first_touch) X(unmapped_page) X(getppid) X(mmap) X(munmap) X(mremap) X(madvise) X(brk)

struct kernel_costs {
#define KERNEL_COST(name) double name##_ns;
  KERNEL_COSTS(KERNEL_COST)
#undef KERNEL_COST
};

/* Takes one sample of each. Returns 0, or -1 with errno: the kernel refused a call. */
int kernel_costs_sample(struct kernel_costs *costs);
