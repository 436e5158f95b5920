/* SPDX-License-Identifier: MIT */
/* A process of another user asks root's recorder to write into its memory, and executes a setuid program at each step
   in between: nothing can be written into that program, nor into another one of the user's. */
#include "capture/attach/tracee/tracee.h"
#include "core/system/peer.h"
#include "core/system/process.h"
#include "core/test/usual.h"

#include <grp.h>

enum { USER = 61003, SKIPPED = 77 };

/* When it executes the other program: before peer_open, before peer_open_memory, before peer_is_same, after all. */
enum step { AT_FIRST, OPENED, HAS_MEMORY, IS_SAME, NEVER };

static char folder[] = "/tmp/heaptape-test-XXXXXX";
static int failed;

static void copy_self(const char *path, mode_t mode) {
  char buffer[1 << 16];
  int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
      to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
  ssize_t got;
  while ((got = read(from, buffer, sizeof buffer)) > 0)
    if (write(to, buffer, (size_t)got) != got)
      exit(1);
  if (from < 0 || to < 0 || got < 0 || fchmod(to, mode) != 0)
    exit(1);
  close(from);
  close(to);
}

struct program {
  int pid, orders, answers; /* a byte each way */
};

/* A process of the user that executes the program when it is given a byte, and answers from both. */
static struct program start(const char *path) {
  int orders[2], answers[2];
  if (pipe(orders) != 0 || pipe(answers) != 0)
    exit(1);
  struct program program = {fork(), orders[1], answers[0]};
  if (program.pid == 0) {
    char byte;
    dup2(orders[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    if (setgroups(0, NULL) != 0 || setresgid(USER, USER, USER) != 0 || setresuid(USER, USER, USER) != 0)
      _exit(1);
    execl("/proc/self/exe", "asks", path,
          (char *)NULL); /* it can be dumped again, as after a change of user it can't */
    _exit(read(STDIN_FILENO, &byte, 1) == 1);
  }
  close(orders[0]);
  close(answers[1]);
  return program;
}

static void wait_for(const struct program *program) {
  char byte;
  if (read(program->answers, &byte, 1) != 1)
    exit(1);
}

static void replace(const struct program *program) {
  if (write(program->orders, "", 1) != 1)
    exit(1);
  wait_for(program);
}

static void end(const struct program *program) {
  kill(program->pid, SIGKILL);
  waitpid(program->pid, NULL, 0);
  close(program->orders);
  close(program->answers);
}

/* An address in the program that it is now. */
static uint64_t address_in(int pid) {
  struct proc_mapping mapping = {.start = 0};
  FILE *maps = proc_open_maps(pid);
  if (!maps || !proc_maps_next(maps, &mapping))
    exit(1);
  fclose(maps);
  return mapping.start;
}

/* Does what linked_redirect does, up to the write. */
static bool writes(const struct program *program, enum step replaced) {
  const struct ucred from = {.pid = program->pid, .uid = USER, .gid = USER};
  struct peer peer;
  char byte;
  int memory = -1;
  if (replaced == AT_FIRST)
    replace(program);
  bool may = peer_open(&peer, &from, -1);
  if (replaced == OPENED)
    replace(program);
  may = may && (memory = peer_open_memory(&peer)) >= 0;
  if (replaced == HAS_MEMORY)
    replace(program);
  may = may && peer_is_same(&peer);
  if (replaced == IS_SAME)
    replace(program);
  off_t at = (off_t)address_in(program->pid);
  may = may && pread(memory, &byte, 1, at) == 1 && pwrite(memory, &byte, 1, at) == 1;
  if (memory >= 0)
    close(memory);
  peer_close(&peer);
  return may;
}

static void check(const char *name, const char *path, enum step replaced, bool expected) {
  struct program program = start(path);
  wait_for(&program);
  if (writes(&program, replaced) != expected) {
    fprintf(stderr, "%s, replaced at step %d: %s\n", name, replaced, expected ? "not written" : "written");
    failed = 1;
  }
  end(&program);
}

/* One that says to be of another user or group than it is, is no peer. */
static void check_ids(const char *path) {
  struct program program = start(path);
  wait_for(&program);
  for (unsigned wrong = 0; wrong < 4; wrong++) {
    const struct ucred from = {.pid = program.pid, .uid = USER + (wrong & 1), .gid = USER + (wrong >> 1)};
    struct peer peer;
    bool opened = peer_open(&peer, &from, -1);
    if (opened != (wrong == 0) || peer_is_same(&peer) != opened || (opened && peer.pid_fd < 0)) {
      fprintf(stderr, "user %u, group %u: %d\n", from.uid, from.gid, opened);
      failed = 1;
    }
    peer_close(&peer);
  }
  end(&program);
}

static void check_held(const char *path, bool replaced) {
  struct program program = start(path);
  struct tracee tracee;
  struct error error = {0};
  wait_for(&program);
  bool held = tracee_open(&tracee, program.pid, &error) == 0;
  if (replaced)
    replace(&program);
  held = held && tracee_hold(&tracee, &error) == 0;
  if (held)
    tracee_release(&tracee);
  tracee_close(&tracee);
  if (held == replaced) {
    fprintf(stderr, "%s: %s\n", path, held ? "held" : error.text);
    failed = 1;
  }
  end(&program);
}

/* The program of the user, and with no argument what it executes. */
static int act(int count, char **arguments) {
  char byte;
  if (write(STDOUT_FILENO, "", 1) != 1 || read(STDIN_FILENO, &byte, 1) != 1)
    return 1;
  if (count > 1)
    execl(arguments[1], "asks", (char *)NULL);
  return 1;
}

int main(int count, char **arguments) {
  struct program program;
  char setuid[64], other[64], status[8192];
  if (strcmp(arguments[0], "asks") == 0)
    return act(count, arguments);
  if (getuid() != 0 || setegid(USER) != 0 || setegid(0) != 0) { /* root of a namespace may have no other users */
    puts("needs root to act as another user");
    return SKIPPED;
  }
  if (!mkdtemp(folder) || chmod(folder, 0755) != 0)
    return 1;
  snprintf(setuid, sizeof setuid, "%s/setuid", folder);
  snprintf(other, sizeof other, "%s/other", folder);
  copy_self(setuid, 04755);
  copy_self(other, 0755);
  program = start(setuid);
  wait_for(&program);
  replace(&program);
  bool gains = proc_read_file(program.pid, "status", status, sizeof status) && strstr(status, "\nUid:\t61003\t0\t0\t0");
  end(&program);
  if (gains) {
    check("none", other, NEVER, true);
    check_ids(other);
    for (enum step step = AT_FIRST; step < NEVER; step++)
      check("setuid", setuid, step, false);
    for (enum step step = OPENED; step < NEVER; step++)
      check("other", other, step, false);
    check_held(other, false);
    check_held(other, true);
    check_held(setuid, true);
  } else {
    puts("no program of /tmp gains rights (nosuid)");
  }
  unlink(setuid);
  unlink(other);
  rmdir(folder);
  return gains ? failed : SKIPPED;
}
