/* SPDX-License-Identifier: MIT */
/* Who still has a process's memory after its end, as a hostile fork child, does not keep its recording from ending. */
#include "capture/recorder/processes/recorded_process.h"
#include "capture/recorder/processes/ring_reading.h"
#include "core/test/usual.h"

static int refills;

/* The child: writes a record into the slot that is read next. */
static void write_more(void *memory) {
  struct bank *bank = memory;
  record_put_words((uint64_t *)((char *)bank + bank_header_bytes(1) + ring_tail(&bank->rings[0])), 0, RECORD_VOID);
  if (++refills > 100000)
    _exit(1);
}

int main(void) {
  char path[] = "/tmp/heaptape-ends-XXXXXX";
  int file = mkstemp(path), pid_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  struct error error = {0};
  struct recording_start start = {.pid = getpid(), .pid_fd = pid_fd, .path = path, .info_json = "{}", .file = &file};
  struct recorded_process *process = recorded_process_open(&start, &error);
  if (!process || close(process_banks_add(process, 1)) != 0)
    return 2;
  struct bank *bank = process->bank[0].memory;
  bank->used = 1;
  write_more(bank);
  ring_reading_drain_left(process, write_more, bank);
  struct process_totals totals;
  int result = recorded_process_close(process, &(struct recording_end){.end = "exit"}, &totals, &error);
  unlink(path);
  return result != 0 || refills < 2;
}
