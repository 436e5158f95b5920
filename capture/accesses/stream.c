/* SPDX-License-Identifier: MIT */
/* The stream of a process's data accesses (core/trace/access_stream.h), on its way from the Valgrind tool to the trace;
   the tool waits while the buffer is full. */
#include "capture/recorder/processes/ring_reading.h"
#include "capture/recorder/processes/side_stream.h"
#include "core/trace/access_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* SOCKET_BYTES: of the kernel's buffer, which the kernel doubles. Large enough that the tool continues while a block is
   compressed, and small enough that, when the recorder stands still, the tool waits before the ring of events is
   full. */
enum { BUFFER_BYTES = 1 << 20, SOCKET_BYTES = 256 << 10 };

/* Of a thread: calls in the trace, missing ones included, and call rows of its accesses. */
struct thread_calls {
  uint64_t events, rows;
};

struct accesses {
  struct side_stream side;
  size_t used, taken;
  bool damaged;
  struct access_coder coder;
  VECTOR(uint32_t) thread_of_serial; /* plus 1; 0: not known yet */
  VECTOR(struct thread_calls) calls; /* by thread */
  uint8_t bytes[BUFFER_BYTES];
};

static const struct side_stream_reader accesses_reader;

static int open_stream(struct recorded_process *process) {
  int ends[2];
  if (process->side) {
    errno = EBUSY;
    return -1;
  }
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  struct accesses *accesses = calloc(1, sizeof *accesses);
  if (!accesses || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    free(accesses);
    close(ends[0]);
    close(ends[1]);
    errno = ENOMEM;
    return -1;
  }
  int buffer_bytes = SOCKET_BYTES;
  setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  accesses->side = (struct side_stream){.reader = &accesses_reader, .fd = ends[0]};
  process->side = &accesses->side;
  return ends[1];
}

static void close_stream(struct side_stream *stream) {
  struct accesses *accesses = (struct accesses *)stream;
  close(stream->fd);
  free(accesses->thread_of_serial.at);
  free(accesses->calls.at);
  free(accesses);
}

static size_t read_stream(struct side_stream *stream) {
  struct accesses *accesses = (struct accesses *)stream;
  size_t before = accesses->used;
  while (accesses->used < BUFFER_BYTES) {
    ssize_t got = TEMP_FAILURE_RETRY(read(stream->fd, accesses->bytes + accesses->used, BUFFER_BYTES - accesses->used));
    if (got <= 0)
      break;
    accesses->used += (size_t)got;
  }
  return accesses->used - before;
}

/* Takes the next item that was read. False: there is no complete one. */
static bool next_item(struct accesses *accesses, struct access_item *item) {
  const uint8_t *from = accesses->bytes + accesses->taken, *end = accesses->bytes + accesses->used;
  if (!accesses->damaged && access_get(&accesses->coder, &from, end, item)) {
    accesses->taken = (size_t)(from - accesses->bytes);
    return true;
  }
  accesses->damaged |= accesses->used - accesses->taken >= ACCESS_ITEM_BYTES;
  if (accesses->damaged)
    accesses->taken = accesses->used;
  memmove(accesses->bytes, accesses->bytes + accesses->taken, accesses->used - accesses->taken);
  accesses->used -= accesses->taken;
  accesses->taken = 0;
  return false;
}

/* The host may write any serial number. */
static void note_thread(struct side_stream *stream, uint64_t serial, uint32_t thread) {
  struct accesses *accesses = (struct accesses *)stream;
  uint32_t *known = serial < PROCESS_THREADS_MOST ? vector_reach(&accesses->thread_of_serial, serial) : NULL;
  if (known)
    *known = thread + 1;
}

static void count_calls(struct side_stream *stream, uint32_t thread, uint64_t calls) {
  struct thread_calls *counts = vector_reach(&((struct accesses *)stream)->calls, thread);
  if (counts)
    counts->events += calls;
}

/* The thread number in the trace; -1: there is none with that serial number. A thread of which only missing calls are
   known gets one here. */
static int64_t thread_of_serial(const struct accesses *accesses, struct recorded_process *process, uint64_t serial) {
  if (serial < accesses->thread_of_serial.room && accesses->thread_of_serial.at[serial])
    return accesses->thread_of_serial.at[serial] - 1;
  for (uint32_t i = 0; i < process->readers.count; i++) {
    struct ring_reader *reader = &process->readers.at[i];
    if (reader->serial != serial || reader->thread >= 0)
      continue;
    ring_reading_gap(process, reader, 0, "calls not recorded yet");
    return reader->thread;
  }
  return -1;
}

/* Makes a call row of the item. Events after a cut are not in the trace, so the accesses end with the last one before
   it: a call row needs an event; where the recording was not cut, the event is in the trace or will be counted. */
static bool take_call(struct accesses *accesses, struct recorded_process *process, struct access_item *item) {
  int64_t thread = thread_of_serial(accesses, process, item->thread);
  struct thread_calls *calls = thread < 0 ? NULL : vector_reach(&accesses->calls, (size_t)thread);
  if (!calls) {
    accesses->side.over = "a thread of the stream is not in the trace";
    return false;
  }
  item->thread = (uint32_t)thread;
  calls->rows++;
  if (process->cut_stamp && calls->rows > calls->events)
    accesses->side.over = process->cut_why;
  return !accesses->side.over;
}

static void take(struct side_stream *stream, struct recorded_process *process) {
  struct accesses *accesses = (struct accesses *)stream;
  struct access_item item;
  while (next_item(accesses, &item)) {
    if (!process_writes(process) || (stream->over && item.kind != ACCESS_TOTAL) ||
        (item.kind == ACCESS_BURST && !trace_writer_totals(process->writer)->accesses.in_bursts))
      continue;
    if (item.kind == ACCESS_EVENT && !take_call(accesses, process, &item))
      continue;
    int result = trace_writer_access(process->writer, &item);
    if (result > 0)
      stream->over = "the stream has values that a trace can't hold";
    if (result < 0)
      process_banks_give_up(process, "cannot be written");
  }
  if (accesses->damaged && !stream->over)
    stream->over = "the stream of accesses is damaged";
}

static const struct side_stream_reader accesses_reader = {open_stream, read_stream, take,
                                                          note_thread, count_calls, close_stream};
REGISTER_SIDE_STREAM(accesses_reader);
