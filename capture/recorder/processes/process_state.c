/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/process_state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  *memory = mapped;
  return fd;
}

int process_regions_add(struct recorded_process *process, uint32_t rings) {
  if (process->regions == REGIONS_MAX) {
    errno = ENOMEM;
    return -1;
  }
  void *memory;
  int fd = shared_memory_open("heaptape", region_bytes(rings), &memory);
  if (fd < 0)
    return -1;
  if (process->regions == 0) {
    atomic_store(&((struct region *)memory)->paused, process->paused);
    atomic_store(&((struct region *)memory)->bursts, process->bursts);
  }
  process->region[process->regions].memory = memory;
  process->region[process->regions].rings = rings;
  process->region[process->regions++].seen = 0;
  return fd;
}

void process_regions_stop(struct recorded_process *process) {
  for (uint32_t i = 0; i < process->regions; i++)
    atomic_store(&process->region[i].memory->stop, 1);
}

void process_regions_pause(struct recorded_process *process, uint32_t reasons, bool on) {
  process->paused = on ? process->paused | reasons : process->paused & ~reasons;
  if (!process->regions)
    return;
  if (on)
    atomic_fetch_or(&process->region[0].memory->paused, reasons);
  else
    atomic_fetch_and(&process->region[0].memory->paused, ~reasons);
}

void process_regions_set_bursts(struct recorded_process *process, uint32_t bursts) {
  process->bursts = bursts;
  if (process->regions)
    atomic_store(&process->region[0].memory->bursts, bursts);
}

uint32_t process_regions_paused(const struct recorded_process *process) {
  return process->regions ? atomic_load(&process->region[0].memory->paused) : process->paused;
}

void process_regions_give_up(struct recorded_process *process, const char *why) {
  if (!process_writes(process))
    return;
  process->given_up = why;
  process_regions_stop(process);
}

void process_regions_set_sandboxed(struct recorded_process *process) {
  if (process->regions)
    atomic_store(&process->region[0].memory->sandboxed, 1);
}

uint64_t process_regions_orphans(const struct recorded_process *process) {
  uint64_t orphans = 0;
  for (uint32_t i = 0; i < process->regions; i++)
    orphans += atomic_load(&process->region[i].memory->orphan);
  return orphans;
}

void process_regions_close(struct recorded_process *process) {
  for (uint32_t i = 0; i < process->regions; i++)
    munmap(process->region[i].memory, region_bytes(process->region[i].rings));
}
