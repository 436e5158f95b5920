/* SPDX-License-Identifier: MIT */
#include "replay/passes/contention/trap.h"

#include "core/base/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* si_code */
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

enum { ARGUMENTS = 6, KERNEL_SIGSET_BYTES = 8, MEASURED_ROUNDS = 20, MEASURED_WAITS = 100, OPERATION = 0x7f };

static void (*report)(const struct trapped_wait *wait);

/* The raw system call, which sets no errno and is not a cancellation point: the only one that the filter lets pass,
   because the instruction pointer is at trap_reissued then. Completely in assembly, as there must be only one copy of
   it. */
long trap_reissue(long number, const uint64_t arguments[ARGUMENTS]) __attribute__((visibility("hidden")));
extern const char trap_reissued[] __attribute__((visibility("hidden")));

__asm__(".text\n"
        ".globl trap_reissue, trap_reissued\n"
        ".hidden trap_reissue, trap_reissued\n"
        "trap_reissue:\n"
#if defined(__x86_64__)
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rcx\n"
        "  mov 0(%rcx), %rdi\n"
        "  mov 8(%rcx), %rsi\n"
        "  mov 16(%rcx), %rdx\n"
        "  mov 24(%rcx), %r10\n"
        "  mov 32(%rcx), %r8\n"
        "  mov 40(%rcx), %r9\n"
        "  syscall\n"
#else
        "  mov x8, x0\n"
        "  mov x9, x1\n"
        "  ldp x0, x1, [x9]\n"
        "  ldp x2, x3, [x9, #16]\n"
        "  ldp x4, x5, [x9, #32]\n"
        "  svc #0\n"
#endif
        "trap_reissued:\n"
        "  ret\n");

/* The state of the thread at the system call that was stopped. */
struct stopped {
  uint64_t arguments[ARGUMENTS];
  uint64_t caller; /* return address, if the function keeps nothing on the stack */
};

#if defined(__x86_64__)
static struct stopped stopped_at(const ucontext_t *context) {
  const greg_t *registers = context->uc_mcontext.gregs;
  static const int places[ARGUMENTS] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
  struct stopped stopped = {.caller = *(const uint64_t *)(uintptr_t)registers[REG_RSP]};
  for (int index = 0; index < ARGUMENTS; index++)
    stopped.arguments[index] = (uint64_t)registers[places[index]];
  return stopped;
}

static void answer(ucontext_t *context, long result) {
  context->uc_mcontext.gregs[REG_RAX] = result;
}
#else
static struct stopped stopped_at(const ucontext_t *context) {
  const unsigned long long *registers = context->uc_mcontext.regs;
  struct stopped stopped = {.caller = registers[30]};
  for (int index = 0; index < ARGUMENTS; index++)
    stopped.arguments[index] = registers[index];
  return stopped;
}

static void answer(ucontext_t *context, long result) {
  context->uc_mcontext.regs[0] = (unsigned long long)result;
}
#endif

/* Applies rt_sigprocmask to the mask that returning from the handler restores; never with SIGSYS. */
static long change_mask(ucontext_t *context, const struct stopped *stopped) {
  uint64_t *mask = (uint64_t *)(void *)&context->uc_sigmask, before = *mask;
  const uint64_t *given = (const uint64_t *)(uintptr_t)stopped->arguments[1];
  uint64_t *old = (uint64_t *)(uintptr_t)stopped->arguments[2];
  if (stopped->arguments[3] != KERNEL_SIGSET_BYTES)
    return -EINVAL;
  if (given) {
    switch ((int)stopped->arguments[0]) {
    case SIG_BLOCK:
      *mask |= *given;
      break;
    case SIG_UNBLOCK:
      *mask &= ~*given;
      break;
    case SIG_SETMASK:
      *mask = *given;
      break;
    default:
      return -EINVAL;
    }
    *mask &= ~((uint64_t)1 << (SIGSYS - 1));
  }
  if (old)
    *old = before;
  return 0;
}

static enum wait_kind kind_of(int number) {
  return number == SYS_futex || number == SYS_futex_waitv ? WAIT_FUTEX
         : number == SYS_sched_yield                      ? WAIT_YIELD
                                                          : WAIT_SLEEP;
}

static uint64_t place_of(int number, const struct stopped *stopped, const siginfo_t *about) {
  switch (number) {
  case SYS_futex:
    return stopped->arguments[0];
  case SYS_futex_waitv: /* of several words, only the first is recorded */
    return stopped->arguments[1] ? ((const struct futex_waitv *)(uintptr_t)stopped->arguments[0])->uaddr : 0;
  case SYS_sched_yield:
    return stopped->caller;
  default:
    return (uint64_t)(uintptr_t)about->si_call_addr;
  }
}

static void on_trap(int number, siginfo_t *about, void *context) {
  if (about->si_code != SYS_SECCOMP) { /* sent by a process */
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  struct stopped stopped = stopped_at(context);
  if (about->si_syscall == SYS_rt_sigprocmask) {
    answer(context, change_mask(context, &stopped));
    return;
  }
  struct trapped_wait wait = {.kind = kind_of(about->si_syscall),
                              .address = place_of(about->si_syscall, &stopped, about)};
  uint64_t begin_ns = os_monotonic_ns();
  long result = trap_reissue(about->si_syscall, stopped.arguments);
  wait.time_ns = os_monotonic_ns() - begin_ns;
  wait.at_once = wait.kind == WAIT_FUTEX && result == -EAGAIN;
  report(&wait);
  answer(context, result);
}

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define LOAD_AT(member, offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member) + (offset))
#define IF(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), then, otherwise)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Both processors store the lower half of a number first. */
static int install_filter(void) {
  uint64_t allowed = (uint64_t)(uintptr_t)trap_reissued;
  struct sock_filter filter[] = {
      /* 0 */ LOAD(nr),
      /* 1 */ IF(SYS_futex, 6, 0),
      /* 2 */ IF(SYS_futex_waitv, 11, 0),
      /* 3 */ IF(SYS_sched_yield, 10, 0),
      /* 4 */ IF(SYS_nanosleep, 9, 0),
      /* 5 */ IF(SYS_clock_nanosleep, 8, 0),
      /* 6 */ IF(SYS_rt_sigprocmask, 7, 0),
      /* 7 */ RETURN(SECCOMP_RET_ALLOW),
      /* 8: which futex operation */ LOAD(args[1]),
      /* 9 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, OPERATION),
      /* 10 */ IF(FUTEX_WAIT, 3, 0),
      /* 11 */ IF(FUTEX_WAIT_BITSET, 2, 0),
      /* 12 */ IF(FUTEX_LOCK_PI, 1, 0),
      /* 13 */ IF(FUTEX_LOCK_PI2, 0, 5),
      /* 14: the handler's own? */ LOAD(instruction_pointer),
      /* 15 */ IF(allowed, 0, 2),
      /* 16 */ LOAD_AT(instruction_pointer, 4),
      /* 17 */ IF(allowed >> 32, 1, 0),
      /* 18 */ RETURN(SECCOMP_RET_TRAP),
      /* 19 */ RETURN(SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  /* SPEC_ALLOW: without it, older kernels make a filtered process slower than others. */
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

int trap_install(void (*waited)(const struct trapped_wait *wait)) {
  report = waited;
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGSYS);
  if (sigaction(SIGSYS, &action, NULL) != 0 || sigprocmask(SIG_UNBLOCK, &only, NULL) != 0)
    return -1;
  return install_filter();
}

uint64_t trap_measure_ns(void) {
  uint32_t word = 1;
  const uint64_t arguments[ARGUMENTS] = {(uint64_t)(uintptr_t)&word, FUTEX_WAIT_PRIVATE, 0};
  uint64_t least_unseen_ns = UINT64_MAX, least_seen_ns = UINT64_MAX;
  for (int round = 0; round < MEASURED_ROUNDS; round++) {
    uint64_t begin_ns = os_monotonic_ns();
    for (int count = 0; count < MEASURED_WAITS; count++)
      trap_reissue(SYS_futex, arguments);
    uint64_t between_ns = os_monotonic_ns();
    for (int count = 0; count < MEASURED_WAITS; count++)
      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    uint64_t unseen_ns = between_ns - begin_ns, seen_ns = os_monotonic_ns() - between_ns;
    least_unseen_ns = unseen_ns < least_unseen_ns ? unseen_ns : least_unseen_ns;
    least_seen_ns = seen_ns < least_seen_ns ? seen_ns : least_seen_ns;
  }
  return least_seen_ns > least_unseen_ns ? (least_seen_ns - least_unseen_ns) / MEASURED_WAITS : 0;
}

struct image {
  const uint8_t *bytes;
  uint64_t size;
};

/* Returns NULL if the part is not in the file. */
static const void *part(const struct image *image, uint64_t offset, uint64_t bytes) {
  return offset <= image->size && bytes <= image->size - offset && offset % 4 == 0 ? image->bytes + offset : NULL;
}

static bool map_file(struct image *image, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat about;
  *image = (struct image){0};
  if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED)
      *image = (struct image){bytes, (uint64_t)about.st_size};
  }
  os_close(fd);
  return image->bytes;
}

static void unmap_file(const struct image *image) {
  munmap((void *)(uintptr_t)image->bytes, image->size);
}

/* Returns the section headers; *count 0: none. */
static const Elf64_Shdr *sections_of(const struct image *image, unsigned *count) {
  const Elf64_Ehdr *header = part(image, 0, sizeof *header);
  *count = 0;
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return NULL;
  const Elf64_Shdr *sections = part(image, header->e_shoff, header->e_shnum * sizeof *sections);
  *count = sections ? header->e_shnum : 0;
  return sections;
}

struct found {
  char *name;
  size_t bytes;
  uint64_t size, offset; /* of the symbol; size 0: none yet */
};

/* Of several symbols that cover the address, the smallest is the nearest to it. */
static void search_table(const struct image *image, const Elf64_Shdr *table, const Elf64_Shdr *names, uint64_t address,
                         struct found *found) {
  const Elf64_Sym *symbols = part(image, table->sh_offset, table->sh_size);
  const char *texts = part(image, names->sh_offset & ~(uint64_t)3, names->sh_size + names->sh_offset % 4);
  if (!symbols || !texts || names->sh_size == 0)
    return;
  texts += names->sh_offset % 4;
  for (uint64_t index = 0; index < table->sh_size / sizeof *symbols; index++) {
    const Elf64_Sym *symbol = &symbols[index];
    bool covers = symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) != STT_TLS &&
                  address - symbol->st_value < symbol->st_size;
    if (!covers || symbol->st_name >= names->sh_size || (found->size > 0 && symbol->st_size >= found->size))
      continue;
    size_t length = strnlen(texts + symbol->st_name, names->sh_size - symbol->st_name);
    snprintf(found->name, found->bytes, "%.*s", (int)length, texts + symbol->st_name);
    found->size = symbol->st_size;
    found->offset = address - symbol->st_value;
  }
}

static void search_file(const struct image *image, uint64_t address, struct found *found) {
  unsigned count;
  const Elf64_Shdr *sections = sections_of(image, &count);
  for (unsigned index = 0; index < count; index++) {
    const Elf64_Shdr *section = &sections[index];
    if ((section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM) && section->sh_link < count)
      search_table(image, section, &sections[section->sh_link], address, found);
  }
}

/* Finds where a debug package has the file's symbols; false: the file has no build id. */
static bool debug_path(const struct image *image, char *path, size_t bytes) {
  unsigned count;
  const Elf64_Shdr *sections = sections_of(image, &count);
  for (unsigned index = 0; index < count; index++) {
    const Elf64_Nhdr *note =
        sections[index].sh_type == SHT_NOTE ? part(image, sections[index].sh_offset, sections[index].sh_size) : NULL;
    if (!note || sections[index].sh_size < sizeof *note || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 ||
        note->n_descsz < 2 || note->n_descsz > 64 || sections[index].sh_size < sizeof *note + 4 + note->n_descsz)
      continue;
    const uint8_t *id = (const uint8_t *)(note + 1) + 4;
    size_t used = (size_t)snprintf(path, bytes, "/usr/lib/debug/.build-id/%02x/", id[0]);
    for (uint32_t digit = 1; digit < note->n_descsz && used < bytes; digit++)
      used += (size_t)snprintf(path + used, bytes - used, "%02x", id[digit]);
    return used < bytes && (size_t)snprintf(path + used, bytes - used, ".debug") < bytes - used;
  }
  return false;
}

/* The C++ library is loaded when a name needs it. If linked, it would be loaded into the engine's process, too. */
static void demangle(char *name, size_t bytes) {
  typedef char *demangler(const char *mangled, char *buffer, size_t *length, int *status);
  void *library = strncmp(name, "_Z", 2) == 0 ? dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) : NULL;
  demangler *function = library ? (demangler *)dlsym(library, "__cxa_demangle") : NULL;
  char *plain = function ? function(name, NULL, NULL, NULL) : NULL;
  if (plain)
    snprintf(name, bytes, "%s", plain);
  free(plain);
  if (library)
    dlclose(library);
}

bool elf_name_of(const char *path, uint64_t address, char *name, size_t bytes, uint64_t *offset) {
  struct found found = {.name = name, .bytes = bytes};
  struct image image, debug;
  char beside[256];
  if (!map_file(&image, path))
    return false;
  search_file(&image, address, &found);
  if (found.size == 0 && debug_path(&image, beside, sizeof beside) && map_file(&debug, beside)) {
    search_file(&debug, address, &found);
    unmap_file(&debug);
  }
  unmap_file(&image);
  if (found.size > 0)
    demangle(name, bytes);
  *offset = found.offset;
  return found.size > 0;
}
