/* SPDX-License-Identifier: MIT */
/* Signal mask and dispositions, limits, descriptors, children, umask, session, errno and exit status of a recorded
   program are those that it has without us; the same holds for programs that it starts. */
#include "capture/test/hosts/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_signals(const char *when) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  printf("%s: blocked", when);
  for (int i = 1; i < NSIG; i++)
    if (sigismember(&mask, i) == 1)
      printf(" %d", i);
  printf("; not default");
  for (int i = 1; i < NSIG; i++) {
    struct sigaction action;
    if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
      printf(" %d%s", i, action.sa_handler == SIG_IGN ? " ignored" : "");
  }
  sigpending(&mask);
  printf("; pending %d\n", sigisemptyset(&mask) == 0);
}

static void print_state(const char *when) {
  print_signals(when);
  for (int i = 0; i < RLIM_NLIMITS; i++) {
    struct rlimit limit;
    if (getrlimit(i, &limit) == 0)
      printf("limit %d: %llu %llu\n", i, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
  }
  for (int fd = 0; fd < 300; fd++)
    if (fcntl(fd, F_GETFD) >= 0)
      printf("descriptor %d: %d\n", fd, fcntl(fd, F_GETFD));
  mode_t mask = umask(0);
  umask(mask);
  int no_children = waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, death = -1, reaper = -1;
  prctl(PR_GET_PDEATHSIG, &death);
  prctl(PR_GET_CHILD_SUBREAPER, &reaper);
  printf("umask %o, nice %d, no children %d, session leader %d, death signal %d, reaper %d, dumpable %d\n", mask,
         getpriority(PRIO_PROCESS, 0), no_children, getsid(0) == getpid(), death, reaper, prctl(PR_GET_DUMPABLE));
}

/* Sizes that take every path of the C library, with errno and the mask compared after each call. */
static void call_all(void) {
  for (size_t bytes = 1; bytes < (size_t)64 << 20; bytes = bytes * 3 + 1) {
    errno = 99;
    void *object = keep(malloc(bytes));
    object = keep(realloc(object, 2 * bytes));
    free(object);
    if (errno != 99)
      printf("errno %d after %zu bytes\n", errno, bytes);
  }
  errno = 0;
  void *none = keep(malloc((size_t)-1 >> 1));
  printf("too much: %p, errno %d\n", none, errno);
}

static void handler(int signal) {
  (void)signal;
}

int host(void) {
  bool again = host_arguments[0] != NULL;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  print_state(again ? "second image" : "at start");
  if (again)
    return 43;
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  sigaddset(&mask, SIGRTMIN + 3);
  pthread_sigmask(SIG_BLOCK, &mask, NULL);
  signal(SIGUSR2, SIG_IGN);
  signal(SIGTERM, handler);
  call_all();
  print_state("after calls");
  int child = fork(), status;
  if (child == 0) {
    call_all();
    print_signals("child");
    _exit(5);
  }
  waitpid(child, &status, 0);
  printf("child ended with %#x\n", (unsigned)status);
  execl("/proc/self/exe", "again", "host", "again", NULL);
  return 1;
}

int test(void) {
  /* Inherited state that a careless launcher would lose. */
  signal(SIGHUP, SIG_IGN);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGWINCH);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  int status;
  same_as_bare(NULL, &status);
  CHECK(WEXITSTATUS(status) == 43, "wait status %#x", status);
  return 0;
}
