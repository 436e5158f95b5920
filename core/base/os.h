/* SPDX-License-Identifier: MIT */
/* The one platform seam: clocks, memory mappings, raw I/O. Everything that differs between kernels or processors is
   here; no other code in heaptape depends on the platform.

   Nothing here allocates with malloc, prints, or keeps state, so the functions defined in this header may run inside
   any host, in a signal handler and before main. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* How a stamp is taken on ARMv8. Defined on other machines too, for tests/model. */
#define OS_STAMP_ARMV8 "dsb ish\n\tisb\n\tmrs %0, cntvct_el0"
#define OS_STAMP_ARMV8_END "eor %0, %1, %1\n\tadd %0, sp, %0\n\tldar xzr, [%0]"

#if defined(__x86_64__)
#include <x86intrin.h>

/* The name in a trace of the clock that os_cycles reads (core/trace/FORMAT.md, INFO). */
#define OS_CYCLES_KIND "tsc"

/* The cycle counter. Not ordered against other instructions: see os_stamp. */
static inline uint64_t os_cycles(void) {
  return __rdtsc();
}

/* Code compiled for general registers alone has no _mm_lfence; with it, other code keeps more in registers. */
static inline void os_wait_for_earlier(void) {
#if defined(__SSE2__)
  _mm_lfence();
#else
  __asm__ volatile("lfence" : : : "memory");
#endif
}

/* The counter, read after all earlier instructions have completed and before any later one starts. Both fences are
   needed: the stamp must be between the tag's exchange and its recheck (core/trace/FORMAT.md, order). About 18 ns in a
   virtual machine. */
static inline uint64_t os_stamp(void) {
  os_wait_for_earlier();
  uint64_t stamp = __rdtsc();
  os_wait_for_earlier();
  return stamp;
}

/* The counter before and after a span of code, so that the difference is the whole span and nothing else: the first
   reading waits for earlier instructions and delays the span until it is done, the second waits for the span. Without
   any one of the three fences a span of 190 cycles was wrong by 20 to 120, or included 80 cycles of earlier code; a
   fourth fence, after the second reading, cost 3 ns and changed nothing (7dfe595e^:replay/bench/counter_reads.c). */
static inline uint64_t os_span_begin(void) {
  return os_stamp();
}
static inline uint64_t os_span_end(void) {
  os_wait_for_earlier();
  return __rdtsc();
}

static inline void os_spin_pause(void) {
  _mm_pause();
}

/* Adds, in one cycle that depends on the sum's last value. */
static inline __attribute__((always_inline)) void os_add_one_cycle(uint64_t *sum, uint64_t more) {
  __asm__ volatile("add %1, %0" : "+r"(*sum) : "r"(more));
}

/* The stack pointer somewhere in the calling function: unlike the frame's address, it needs no frame pointer. */
static inline __attribute__((always_inline)) uintptr_t os_stack_pointer(void) {
  uintptr_t value;
  __asm__ volatile("mov %%rsp, %0" : "=r"(value));
  return value;
}

/* Stores the stack pointer, in one instruction. */
static inline __attribute__((always_inline)) void os_store_stack_pointer(uintptr_t *to) {
  __asm__ volatile("mov %%rsp, %0" : "=m"(*to));
}

/* Adds to the value and returns the previous one, in one instruction: atomic for a signal handler of the same thread,
   but not for other threads. */
static inline __attribute__((always_inline)) uint64_t os_fetch_add_own(uint64_t *value, uint64_t more) {
  __asm__ volatile("xadd %0, %1" : "+r"(more), "+m"(*value)::"memory", "cc");
  return more;
}

/* Adds to the value, in the same sense. */
static inline __attribute__((always_inline)) void os_add_own(uint64_t *value, uint64_t more) {
  __asm__ volatile("addq %1, %0" : "+m"(*value) : "er"(more) : "memory", "cc");
}

/* Replaces the value *old by `new`, atomic in the same sense. False: it was another value, which is now *old. */
static inline __attribute__((always_inline)) bool os_replace_own(uint64_t *value, uint64_t *old, uint64_t new) {
  bool done;
  __asm__ volatile("cmpxchg %3, %1" : "=@cce"(done), "+m"(*value), "+a"(*old) : "r"(new) : "memory");
  return done;
}

/* The instruction that a return address, as stored on the stack, leads to. */
static inline uintptr_t os_return_address(uintptr_t stored) {
  return stored;
}

/* Do stacks usually have frame pointers, and is there no other way to walk them? */
enum { OS_FRAME_POINTERS_ALONE = false };

/* Brings in the cache line at address to be written. A compiler would prefetch it for reading, as all processors can,
   which does not help where another core has just read it. */
static inline void os_prefetch_to_write(const void *address) {
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
}

#elif defined(__aarch64__)

#define OS_CYCLES_KIND "cntvct"

/* The generic timer's virtual count: it has the same rate on all processors, which differs from that of their
   cycles. */
static inline uint64_t os_cycles(void) {
  uint64_t value;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}

/* As above, with two more difficulties. Order of accesses and the counter: only an ISB keeps a reading from being done
   early. ISB does not wait for accesses, but for a DSB, which does; a DMB would only order accesses among themselves.
   Later accesses wait for a load that has acquire semantics, and that load waits for the reading, since its address is
   computed from it. tests/test/weak_memory_orders_every_history.c finds the wrong history where one of these is
   missing.
   Coarse counters: some count 24 million times a second, so that two threads could read the same value one after the
   other. So a stamp is the first value above the counter's first reading: it is above each stamp that was taken before
   this one was begun. That the value is above the first reading also shows that it was read later. */
static inline uint64_t os_stamp(void) {
  uint64_t before, value, address;
  __asm__ volatile(OS_STAMP_ARMV8 : "=r"(before)::"memory");
  do
    value = os_cycles();
  while (value <= before);
  __asm__ volatile(OS_STAMP_ARMV8_END : "=&r"(address) : "r"(value) : "memory");
  return value;
}

static inline uint64_t os_span_begin(void) {
  uint64_t value;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(value)::"memory");
  return value;
}
static inline uint64_t os_span_end(void) {
  uint64_t value;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(value)::"memory");
  return value;
}

static inline void os_spin_pause(void) {
  __asm__ volatile("yield");
}

static inline __attribute__((always_inline)) void os_add_one_cycle(uint64_t *sum, uint64_t more) {
  __asm__ volatile("add %0, %0, %1" : "+r"(*sum) : "r"(more));
}

static inline __attribute__((always_inline)) uintptr_t os_stack_pointer(void) {
  uintptr_t value;
  __asm__ volatile("mov %0, sp" : "=r"(value));
  return value;
}

static inline __attribute__((always_inline)) void os_store_stack_pointer(uintptr_t *to) {
  *to = os_stack_pointer();
}

static inline uint64_t os_fetch_add_own(uint64_t *value, uint64_t more) {
  return __atomic_fetch_add(value, more, __ATOMIC_RELAXED);
}

static inline void os_add_own(uint64_t *value, uint64_t more) {
  __atomic_fetch_add(value, more, __ATOMIC_RELAXED);
}

static inline bool os_replace_own(uint64_t *value, uint64_t *old, uint64_t new) {
  return __atomic_compare_exchange_n(value, old, new, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Removes the signature, where the program signs its return addresses, by XPACLRI, which is a no-op elsewhere. */
static inline uintptr_t os_return_address(uintptr_t stored) {
  register uintptr_t address __asm__("x30") = stored;
  __asm__("hint #7" : "+r"(address));
  return address;
}

/* Compilers leave frame pointers out only of functions that call nothing. heaptape does not read call frame information
   of aarch64. */
enum { OS_FRAME_POINTERS_ALONE = true };

static inline void os_prefetch_to_write(const void *address) {
  __builtin_prefetch(address, 1);
}

#else
#error "heaptape needs a processor whose cycle counter it knows: x86-64 or aarch64"
#endif

/* CLOCK_MONOTONIC and CLOCK_REALTIME in nanoseconds. */
uint64_t os_monotonic_ns(void);
uint64_t os_unix_ns(void);

/* CPU time of the calling thread, or process, in nanoseconds. A system call, about 200 ns. */
uint64_t os_thread_cpu_ns(void);
uint64_t os_process_cpu_ns(void);

/* Sleeps until os_monotonic_ns would return that value; signals do not end it. */
void os_sleep_until_ns(uint64_t monotonic_ns);

/* A clock and os_cycles at one moment, and the frequency of os_cycles in Hz between two such readings (0 if the clock
   didn't advance). Both are read 8 times and the closest two are taken: an interrupt or another thread between two
   plain readings moved one against the other by 10 us in one of 18,000 pairs on an idle machine, and by up to 10 ms
   beside busy loops. */
struct os_clocks {
  uint64_t ns, cycles;
};
struct os_clocks os_read_clocks(clockid_t clock);
double os_clocks_hz(struct os_clocks from, struct os_clocks to);

/* Frequency of os_cycles in Hz, from two readings of both clocks at least interval_ns apart (blocks that long). */
double os_cycles_hz(uint64_t interval_ns);

/* Is os_cycles constant in rate, never stopping and the same on all processors? If not, stamps must come from
 * elsewhere. */
bool os_cycles_invariant(void);

/* Bytes of one OS page. */
size_t os_page_bytes(void);

enum { HUGE_PAGE_BYTES = 2 << 20 }; /* a transparent huge page, where an OS page has 4 KiB */

/* How many processors the calling thread may use; at least 1. */
uint32_t os_processors(void);

/* Anonymous memory, zeroed, shared (counted as RssShmem, not RssAnon) or private; NULL on failure with errno set. */
void *os_map(size_t bytes, bool shared);
void os_unmap(void *memory, size_t bytes);

/* Writes or reads exactly that many bytes at that offset, resuming after short transfers and EINTR. Returns 0, or -1
   with errno set (ENODATA: the file ended first). */
int os_pwrite_all(int fd, const void *bytes, size_t count, uint64_t offset);
int os_pread_all(int fd, void *bytes, size_t count, uint64_t offset);

/* Reserves that many bytes from offset on, without making the file longer. Returns 0, or -1 with errno set where there
   is no room. Returns 0 also where the file system can't reserve. */
int os_reserve(int fd, uint64_t offset, uint64_t bytes);

/* Closes the descriptor, unless it is below 0. Keeps errno. */
void os_close(int fd);

/* The kernel's id of the calling thread. */
int os_thread_id(void);

/* Waits while *word == expected, at most timeout_ns (0: for ever), across processes if shared; spurious returns happen.
 */
void os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns, bool shared);
void os_futex_wake(const uint32_t *word, int waiters, bool shared);
