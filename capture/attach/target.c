/* SPDX-License-Identifier: MIT */
#include "capture/attach/target.h"

#include "capture/attach/linked_running.h"
#include "capture/attach/tracee/objects.h"
#include "capture/attach/tracee/seccomp.h"
#include "capture/linked/linked_patches.h"
#include "core/base/os.h"
#include "core/elf/elf_file.h"
#include "core/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refuse(struct error *error, int pid, const char *why) {
  char name[32];
  snprintf(name, sizeof name, "process %d", pid);
  return error_set(error, name, "%s", why);
}

/* Are the four user or group ids in that line of `status` the same? */
static bool ids_agree(const char *status, const char *key) {
  unsigned id[4];
  const char *line = strstr(status, key);
  return line && sscanf(line + strlen(key), "%u %u %u %u", &id[0], &id[1], &id[2], &id[3]) == 4 && id[0] == id[1] &&
         id[0] == id[2] && id[0] == id[3];
}

bool target_has_other_files(int pid) {
  return proc_differs(pid, "ns/mnt") || proc_differs(pid, "root");
}

static int make_socket(void) {
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int target_socket(int pid) {
  if (!proc_differs(pid, "ns/net"))
    return make_socket();
  int its = proc_open(pid, "ns/net"), own = proc_open(getpid(), "ns/net"), made = -1;
  if (its >= 0 && own >= 0 && setns(its, CLONE_NEWNET) == 0) {
    made = make_socket();
    if (setns(own, CLONE_NEWNET) != 0 && made >= 0) {
      close(made);
      made = -1;
    }
  }
  os_close(its);
  os_close(own);
  return made;
}

static int check_state(int pid, const char *status, struct error *error) {
  const char *state = strstr(status, "\nState:\t");
  uint64_t none = UINT64_MAX, tracer = proc_status_number(status, "\nTracerPid:", 0);
  if (proc_status_number(status, "\nTgid:", none) != (uint64_t)pid)
    return refuse(error, pid, "is a thread of another process: give that one's id");
  if (state && (state[8] == 'Z' || state[8] == 'X'))
    return refuse(error, pid, "has ended");
  if (tracer) {
    char why[80];
    snprintf(why, sizeof why, "is traced by process %" PRIu64 ", and only one can trace it", tracer);
    return refuse(error, pid, why);
  }
  if (state && (state[8] == 'T' || state[8] == 't'))
    return refuse(error, pid, "is stopped: continue it first (kill -CONT)");
  if (proc_status_number(status, "\nVmSize:", none) == none)
    return refuse(error, pid, "is a thread of the kernel");
  return 0;
}

int target_check_owner(int pid, struct error *error) {
  char path[64], status[8192];
  struct stat owner;
  if (!proc_read_file(pid, "status", status, sizeof status))
    return refuse(error, pid, "has ended");
  snprintf(path, sizeof path, "/proc/%d", pid);
  if (!ids_agree(status, "\nUid:") || !ids_agree(status, "\nGid:"))
    return refuse(error, pid, "has changed its user or group (setuid, setgid)");
  if (proc_status_number(status, "\nUid:", getuid()) != getuid() && getuid() != 0)
    return refuse(error, pid, "belongs to another user");
  if (stat(path, &owner) == 0 && owner.st_uid == 0 && getuid() != 0)
    return refuse(error, pid, "may not be traced: it gained rights, or forbids it (PR_SET_DUMPABLE)");
  return 0;
}

static int check_yama(int pid, struct error *error) {
  char scope = '0';
  int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    if (read(fd, &scope, 1) != 1)
      scope = '0';
    close(fd);
  }
  if (scope == '3')
    return refuse(error, pid, "may not be traced: the kernel forbids it to all (kernel.yama.ptrace_scope is 3)");
  if (scope != '0' && geteuid() != 0)
    return refuse(error, pid, "may not be traced: kernel.yama.ptrace_scope is not 0; run heaptape as root, or set it");
  return 0;
}

/* Where it has other files than we, it opens our library by /proc/self. */
static int check_surroundings(int pid, struct error *error) {
  char path[64];
  struct stat file;
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  if (stat(path, &file) != 0)
    return refuse(error, pid, errno == EACCES ? "may not be inspected" : "has no program that can be read");
  snprintf(path, sizeof path, "/proc/%d/root/proc/self", pid);
  if (target_has_other_files(pid) && lstat(path, &file) != 0)
    return refuse(error, pid,
                  "has another root directory (chroot, container) without /proc: it can't load our library");
  int made = target_socket(pid);
  if (made < 0)
    return refuse(error, pid, "is in another network namespace (a container): only root can record it from outside");
  close(made);
  return 0;
}

static int check_library(int pid, struct error *error) {
  return proc_has_mapped(pid, "libheaptape.so")
             ? refuse(error, pid, "was started under heaptape record: it has libheaptape.so already")
             : 0;
}

/* It must be possible to redirect the functions of an allocator in its executable, and to make our system calls. */
static int check_inside(int pid, bool filtered, struct error *error) {
  struct tracee tracee;
  struct linked_running linked;
  if (tracee_open(&tracee, pid, error) != 0)
    return -1;
  int result = linked_running_open(&linked, &tracee, 0, error);
  linked_patches_close(&linked.patches);
  if (result == 0 && filtered)
    result = seccomp_check(&tracee, target_has_other_files(pid), error);
  tracee_close(&tracee);
  return result;
}

static int check_program(int pid, struct error *error) {
  struct program_file file;
  int fd = proc_open(pid, "exe");
  if (fd < 0)
    return refuse(error, pid, "its program can't be read");
  program_file_read(fd, &file);
  close(fd);
  if (file.kind == PROGRAM_OF_OTHER_MACHINE)
    return refuse(error, pid, "a program for another kind of processor (or 32 bits)");
  if (file.kind == PROGRAM_DAMAGED)
    return refuse(error, pid, "a damaged ELF file");
  if (!file.loader[0])
    return refuse(error, pid, "statically linked: nothing can load our library: start it by heaptape record -- CMD");
  if (strstr(file.loader, "ld-musl"))
    return refuse(error, pid,
                  "uses musl, which loads no library with variables of each thread (initial-exec TLS) later: start it "
                  "by heaptape record -- CMD");
  return check_library(pid, error);
}

/* A vfork child runs in its parent's memory. */
static int check_memory(int pid, const char *status, struct error *error) {
  uint64_t parent = proc_status_number(status, "\nPPid:", 0);
  if (parent && syscall(SYS_kcmp, pid, (pid_t)parent, KCMP_VM, 0, 0) == 0)
    return refuse(error, pid, "shares its parent's memory (vfork): wait until it has executed its program");
  return 0;
}

int target_check(int pid, struct error *error) {
  char status[8192];
#if !defined(__x86_64__)
  return refuse(error, pid, "attaching is for x86-64 only");
#endif
  if (pid == getpid() || !proc_read_file(pid, "status", status, sizeof status))
    return refuse(error, pid, "no such process");
  if (check_state(pid, status, error) != 0 || target_check_owner(pid, error) != 0 || check_yama(pid, error) != 0 ||
      check_surroundings(pid, error) != 0 || check_program(pid, error) != 0 || check_memory(pid, status, error) != 0)
    return -1;
  return check_inside(pid, proc_status_number(status, "\nSeccomp:", 0) != 0, error);
}
