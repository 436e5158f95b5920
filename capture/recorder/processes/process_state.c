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
