/* SPDX-License-Identifier: MIT */
/* However many threads a ring claims to have had, the recorder takes a bounded number; the trace is then given up, with
   the reason, and its calls are counted as lost. */
#include "capture/recorder/processes/recorded_process.h"
#include "capture/recorder/processes/ring_reading.h"
#include "core/test/usual.h"

static int failed;
#define CHECK(condition)                                                                                               \
  ((condition) ? (void)0 : (void)(failed = 1, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition)))

static void nothing(void *context) {
  (void)context;
}

/* The calls of a thread with that serial number: malloc(24), free. */
static void put_thread(struct bank *bank, uint64_t serial) {
  static uint64_t place;
  const uint64_t records[][2] = {
      {RECORD_THREAD, serial}, {RECORD_STAMP, serial}, {CALL_malloc | 0x1000 << 8, 24}, {CALL_free | 0x1000 << 8, 0}};
  for (size_t i = 0; i < sizeof records / sizeof *records; i++, place += 16)
    record_put((uint64_t *)((char *)bank + bank_header_bytes(1) + place), records[i][0], records[i][1]);
}

int main(void) {
  char path[] = "/tmp/heaptape-threads-XXXXXX";
  int file = mkstemp(path), pid_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  struct error error = {0};
  struct recording_start start = {.pid = getpid(), .pid_fd = pid_fd, .path = path, .info_json = "{}", .file = &file};
  struct recorded_process *process = recorded_process_open(&start, &error);
  CHECK(process && close(process_banks_add(process, 1)) == 0);
  struct bank *bank = process->bank[0].memory;
  bank->used = 1;
  for (uint64_t serial = 1; serial <= 3; serial++)
    put_thread(bank, serial);
  ring_reading_drain_all(process, nothing, NULL);
  CHECK(process->threads == 3 && process_writes(process));
  process->threads = PROCESS_THREADS_MOST; /* which takes a minute to reach */
  put_thread(bank, 4);
  ring_reading_drain_all(process, nothing, NULL);
  CHECK(!process_writes(process) && strstr(process->given_up, "more than 4,194,304 threads"));
  struct process_totals totals;
  recorded_process_close(process, &(struct recording_end){.end = "exit"}, &totals, &error);
  CHECK(strstr(error.text, "more than 4,194,304 threads"));
  CHECK(totals.totals.events == 6 && totals.totals.lost == 2);
  unlink(path);
  return failed;
}
