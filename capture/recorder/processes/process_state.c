/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/process_state.h"

#include "core/base/os.h"
#include "core/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_NAME "heaptape"

static void *sealed_mapping(int fd, size_t size_bytes) {
  if (ftruncate(fd, (off_t)size_bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return MAP_FAILED;
  return mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

int shared_memory_open(const char *name, size_t size_bytes, void **memory) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  void *mapped = sealed_mapping(fd, size_bytes);
  if (mapped == MAP_FAILED) {
    os_close(fd);
    return -1;
  }
  *memory = mapped;
  return fd;
}

int process_banks_add(struct recorded_process *process, uint32_t rings) {
  if (process->banks == BANKS_MAX) {
    errno = ENOMEM;
    return -1;
  }
  void *memory;
  int fd = shared_memory_open(MEMORY_NAME, bank_bytes(rings), &memory);
  if (fd < 0)
    return -1;
  if (process->banks == 0) {
    struct stat status;
    process->inode = fstat(fd, &status) == 0 ? status.st_ino : 0;
    atomic_store(&((struct bank *)memory)->paused, process->paused);
    atomic_store(&((struct bank *)memory)->bursts, process->bursts);
  }
  process->bank[process->banks].memory = memory;
  process->bank[process->banks].rings = rings;
  process->bank[process->banks++].seen = 0;
  return fd;
}

bool process_banks_are_mapped(const struct recorded_process *process) {
  FILE *maps = process->inode ? proc_open_maps(process->pid) : NULL;
  struct proc_mapping mapping;
  bool found = false;
  while (maps && !found && proc_maps_next(maps, &mapping))
    found = mapping.inode == process->inode && strcmp(mapping.path, "/memfd:" MEMORY_NAME) == 0;
  if (maps)
    fclose(maps);
  return found;
}

void process_banks_stop(struct recorded_process *process) {
  for (uint32_t i = 0; i < process->banks; i++)
    atomic_store(&process->bank[i].memory->stop, 1);
}

void process_banks_pause(struct recorded_process *process, uint32_t reasons, bool on) {
  process->paused = on ? process->paused | reasons : process->paused & ~reasons;
  if (!process->banks)
    return;
  if (on)
    atomic_fetch_or(&process->bank[0].memory->paused, reasons);
  else
    atomic_fetch_and(&process->bank[0].memory->paused, ~reasons);
}

void process_banks_set_bursts(struct recorded_process *process, uint32_t bursts) {
  process->bursts = bursts;
  if (process->banks)
    atomic_store(&process->bank[0].memory->bursts, bursts);
}

uint32_t process_banks_paused(const struct recorded_process *process) {
  return process->banks ? atomic_load(&process->bank[0].memory->paused) : process->paused;
}

void process_banks_give_up(struct recorded_process *process, const char *why) {
  if (!process_writes(process))
    return;
  process->given_up = why;
  process_banks_stop(process);
}

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
