#include "convert/driver/kept_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int kept_file_map(struct kept_file *kept, const char *path, struct error *error) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &about) != 0) {
    if (fd >= 0)
      close(fd);
    return error_errno(error, path, "can't read");
  }
  static const uint8_t nothing[1];
  void *bytes = (void *)(uintptr_t)nothing;
  if (about.st_size > 0)
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (bytes == MAP_FAILED)
    return error_errno(error, path, "can't read");
  *kept = (struct kept_file){bytes, (uint64_t)about.st_size};
  return 0;
}

void kept_file_unmap(struct kept_file *kept) {
  if (kept->count)
    munmap((void *)(uintptr_t)kept->objects, kept->count);
}
