/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/access_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Size of the kernel's buffer, which the kernel doubles. Large enough that the tool continues while a block is
   compressed, and small enough that, when the recorder stands still, the tool waits before the ring of events is
   full. */
enum { SOCKET_BYTES = 256 << 10 };

int access_stream_open(struct access_stream *stream) {
  int ends[2];
  if (stream->bytes) {
    errno = EBUSY;
    return -1;
  }
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  uint8_t *bytes = malloc(ACCESS_STREAM_BYTES);
  if (!bytes || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    free(bytes);
    close(ends[0]);
    close(ends[1]);
    errno = ENOMEM;
    return -1;
  }
  int buffer_bytes = SOCKET_BYTES;
  setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  *stream = (struct access_stream){.bytes = bytes, .fd = ends[0]};
  return ends[1];
}

size_t access_stream_read(struct access_stream *stream) {
  size_t before = stream->used;
  while (stream->bytes && stream->used < ACCESS_STREAM_BYTES) {
    ssize_t got =
        TEMP_FAILURE_RETRY(read(stream->fd, stream->bytes + stream->used, ACCESS_STREAM_BYTES - stream->used));
    if (got <= 0)
      break;
    stream->used += (size_t)got;
  }
  return stream->used - before;
}

bool access_stream_next(struct access_stream *stream, struct access_item *item) {
  const uint8_t *from = stream->bytes + stream->taken, *end = stream->bytes + stream->used;
  if (stream->bytes && !stream->damaged && access_get(&stream->coder, &from, end, item)) {
    stream->taken = (size_t)(from - stream->bytes);
    return true;
  }
  if (!stream->bytes)
    return false;
  stream->damaged |= stream->used - stream->taken >= ACCESS_ITEM_BYTES;
  if (stream->damaged)
    stream->taken = stream->used;
  memmove(stream->bytes, stream->bytes + stream->taken, stream->used - stream->taken);
  stream->used -= stream->taken;
  stream->taken = 0;
  return false;
}

void access_stream_close(struct access_stream *stream) {
  if (!stream->bytes)
    return;
  close(stream->fd);
  free(stream->bytes);
  *stream = (struct access_stream){0};
}
