/* SPDX-License-Identifier: MIT */
/* A recorded process names the files that the recorder reads: opening a device or a pipe could have an effect, another
   file now at that path is not what is mapped, and a file of any size costs little. */
#include "capture/recorder/processes/mapped_file.h"
#include "core/elf/elf_file.h"
#include "core/test/usual.h"

#include <sys/sysmacros.h>

static int failed;

static void claim(bool holds, const char *path, const char *what) {
  if (!holds)
    fprintf(stderr, "%s: %s\n", path, what);
  failed |= !holds;
}

/* The numbers of the file at the path, as if it were mapped. */
static struct proc_mapping mapping_of(const char *path) {
  struct proc_mapping mapping = {.inode = 0};
  struct stat status;
  snprintf(mapping.path, sizeof mapping.path, "%s", path);
  if (stat(path, &status) == 0) {
    mapping.device = (uint64_t)major(status.st_dev) << 32 | minor(status.st_dev);
    mapping.inode = status.st_ino;
  }
  return mapping;
}

static void check_mapping(const struct proc_mapping *mapping, bool opens) {
  int fd = mapped_file_open(getpid(), mapping);
  claim((fd >= 0) == opens, mapping->path, opens ? "was not opened" : "was opened");
  claim(fd < 0 || (fcntl(fd, F_GETFL) & (O_PATH | O_ACCMODE)) == O_RDONLY, mapping->path,
        "is open for more than reading");
  if (fd >= 0)
    close(fd);
}

static void check(const char *path, bool opens) {
  const struct proc_mapping mapping = mapping_of(path);
  check_mapping(&mapping, opens);
}

/* Every file that we have mapped ourselves is found by the kernel's own numbers. */
static void check_own(void) {
  struct proc_mapping mapping;
  unsigned count = 0;
  FILE *maps = proc_open_maps(getpid());
  while (maps && proc_maps_next(maps, &mapping))
    if (mapping.path[0] == '/') {
      check_mapping(&mapping, true);
      count++;
    }
  claim(count > 2, "/proc/self/maps", "has no files");
  if (maps)
    fclose(maps);
}

/* A file that is another one than what was mapped from its path. */
static void check_replaced(const char *path) {
  char before[128];
  snprintf(before, sizeof before, "%s.before", path);
  FILE *file = fopen(path, "w");
  struct proc_mapping mapping = mapping_of(path);
  claim(file && fclose(file) == 0 && rename(path, before) == 0 && (file = fopen(path, "w")), path, "can't be made");
  check_mapping(&mapping, false);
  if (file)
    fclose(file);
  unlink(path);
  unlink(before);
}

/* Not ru_maxrss: that includes what the process had before it executed this program. */
static unsigned long highest_kib(void) {
  char line[256];
  unsigned long kib = 0;
  FILE *file = fopen("/proc/self/status", "re");
  while (file && fgets(line, sizeof line, file) && sscanf(line, "VmHWM: %lu kB", &kib) != 1)
    ;
  if (file)
    fclose(file);
  return kib;
}

/* A file without content, of so many bytes, whose header promises notes of all of them. */
static void check_huge(const char *path) {
  static const off_t HUGE_BYTES = (off_t)1 << 30;
  enum { MOST_KIB = 200 << 10 };
  Elf64_Ehdr header = {.e_type = ET_DYN,
                       .e_phoff = sizeof header,
                       .e_phnum = 1,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_ehsize = sizeof header};
  Elf64_Phdr notes = {.p_type = PT_NOTE, .p_filesz = (uint64_t)HUGE_BYTES - 4096, .p_offset = 4096, .p_align = 4};
  char id[256];
  struct elf_file file;
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  claim(pwrite(fd, &header, sizeof header, 0) == sizeof header &&
            pwrite(fd, &notes, sizeof notes, sizeof header) == sizeof notes && ftruncate(fd, HUGE_BYTES) == 0,
        path, "can't be made");
  struct elf_memory memory = elf_descriptor(&fd);
  claim(elf_file_read(&memory, &file) && !elf_file_build_id(fd, &file, id), path, "has a build id");
  claim(!mapped_file_glibc_version(fd, id, sizeof id), path, "is a glibc");
  claim(highest_kib() > 0 && highest_kib() < MOST_KIB, path, "was read into memory");
  close(fd);
  unlink(path);
}

/* The banner is found wherever it lies, also across the parts in which the file is read. */
static void check_version(const char *path) {
  static const char BANNER[] = "GNU C Library (x) stable release version 2.36.\n";
  char version[32];
  for (off_t at = (1 << 16) - 60; at < (1 << 16) + 20; at += 10) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    claim(pwrite(fd, BANNER, sizeof BANNER, at) == sizeof BANNER, path, "can't be made");
    claim(mapped_file_glibc_version(fd, version, sizeof version) && strcmp(version, "2.36") == 0, path,
          "has no version");
    close(fd);
  }
  unlink(path);
}

int main(void) {
  char folder[] = "/tmp/heaptape-test-XXXXXX", path[64], link[64];
  if (!mkdtemp(folder))
    return 1;
  snprintf(path, sizeof path, "%s/pipe", folder);
  snprintf(link, sizeof link, "%s/link", folder);
  if (mkfifo(path, 0600) != 0 || symlink("pipe", link) != 0)
    return 1;
  check(path, false);
  check(link, false);
  check("/dev/null", false);
  check(folder, false);
  check("/nowhere", false);
  unlink(link);
  if (symlink("/proc/self/exe", link) != 0)
    return 1;
  check("/proc/self/exe", true);
  check(link, true);
  check_own();
  unlink(link);
  unlink(path);
  check_replaced(path);
  check_version(path);
  check_huge(path);
  rmdir(folder);
  return failed;
}
