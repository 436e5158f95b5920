/* SPDX-License-Identifier: MIT */
#include "replay/parent/syscalls.h"

#include "core/base/os.h"
#include "core/system/process.h"

#include <stdlib.h>
#include <unistd.h>

#define NAME(ident, name) #name,
const char *const syscall_names[COUNTED_SYSCALLS] = {COUNTED_SYSCALLS_EACH(NAME)};

static const int numbers[COUNTED_SYSCALLS] = {COUNTED_SYSCALLS_EACH(COUNTED_SYSCALL_NUMBER)};

int syscalls_install(int socket) {
  return notify_install(socket, numbers, COUNTED_SYSCALLS);
}

void syscalls_accept(struct syscalls *counts, int socket, pid_t engine) {
  counts->status_fd = -1;
  counts->missing_because = "the kernel does not permit seccomp user notification here";
  counts->listener = notify_accept(socket);
  if (counts->listener < 0)
    return;
  counts->missing_because = NULL;
  counts->status_fd = proc_open(engine, "status");
}

/* brk takes an address: the bytes are those by which it moves the break, up or down. 0 only returns it. */
static uint64_t bytes_of_break(struct syscalls *counts, uint64_t address, const struct replay_result *result) {
  uint64_t before = counts->break_address ? counts->break_address : result->brk_at_setup;
  if (address == 0)
    return 0;
  counts->break_address = address;
  if (before == 0)
    return 0; /* the first call, before main: the old break is not known */
  return address > before ? address - before : before - address;
}

static void sample_memory(struct syscalls *counts, const struct replay_result *result) {
  struct proc_status now;
  if (counts->status_fd < 0 || proc_status_read(counts->status_fd, &now) != 0)
    return;
  if (now.rss_anon_bytes > counts->peak.rss_anon_bytes) {
    counts->peak.rss_anon_bytes = now.rss_anon_bytes;
    counts->rss_peak_position = atomic_load(&result->done);
  }
  if (now.vm_size_bytes > counts->peak.vm_size_bytes)
    counts->peak.vm_size_bytes = now.vm_size_bytes;
}

static void add_row(struct syscalls *counts, struct syscall_row row) {
  if (!counts->rows)
    counts->rows = malloc(SYSCALL_ROWS * sizeof *counts->rows);
  if (counts->rows && counts->row_count < SYSCALL_ROWS)
    counts->rows[counts->row_count++] = row;
  else
    counts->rows_lost++;
}

static void count_call(struct syscalls *counts, const struct seccomp_data *data, const struct replay_result *result) {
  enum counted_syscall number = 0;
  while (number < COUNTED_SYSCALLS && data->nr != numbers[number])
    number++;
  if (number == COUNTED_SYSCALLS)
    return;
  uint64_t bytes = number == SYSCALL_MREMAP ? data->args[2] : data->args[1];
  uint64_t break_before = counts->break_address ? counts->break_address : result->brk_at_setup;
  if (number == SYSCALL_BRK)
    bytes = bytes_of_break(counts, data->args[0], result);
  uint32_t phase = atomic_load(&result->phase);
  if (phase == PHASE_LOADING && counts->early_count < EARLY_CALLS)
    counts->early[counts->early_count++] = (struct early_call){data->instruction_pointer, bytes, number};
  if (number == SYSCALL_MADVISE && data->args[0] >= result->file_first && data->args[0] < result->file_last)
    return;
  if (phase == PHASE_EMPTYING)
    counts->emptying_counts[number]++;
  if (phase != PHASE_REPLAY)
    return;
  counts->counts[number]++;
  counts->bytes[number] += bytes;
  add_row(counts, (struct syscall_row){atomic_load(&result->done), bytes, number});
  if (notify_may_shrink(data, break_before))
    sample_memory(counts, result);
}

void syscalls_answer(struct syscalls *counts, const struct replay_result *result) {
  struct seccomp_notif notice;
  if (!notify_receive(counts->listener, &notice))
    return;
  count_call(counts, &notice.data, result);
  notify_answer(counts->listener, notice.id);
}

void syscalls_finish(struct syscalls *counts, const struct replay_result *result) {
  if (counts->listener < 0)
    return;
  close(counts->listener);
  os_close(counts->status_fd);
  /* The last of them is the engine's mapping of the shared area, without which it can't report that its main has begun.
   */
  for (uint32_t index = 0; index + 1 < counts->early_count; index++) {
    const struct early_call *early = &counts->early[index];
    if (early->caller >= result->linker_first && early->caller < result->linker_last)
      continue;
    counts->counts[early->number]++;
    counts->bytes[early->number] += early->bytes;
  }
}
