/* SPDX-License-Identifier: MIT */
#include "capture/test/hosts/recording.h"

#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

/* A program that changes its root to an empty directory (no /proc, /dev or /dev/shm), drops its rights and its user,
   and starts threads and forks there, is recorded; so is the fork child. */

enum { CHROOT_PAIRS = 3000, CHROOT_THREADS = 30, NOBODY = 65534 };

static void *chroot_work(void *unused) {
  for (int i = 0; i < CHROOT_PAIRS; i++)
    free(keep(malloc(100)));
  return unused;
}

static int chroot_host(void) {
  chroot_work(NULL);
  mkdir("empty", 0755);
  if (chroot("empty") != 0 || chdir("/") != 0) {
    puts("may not change its root");
    return 77;
  }
  if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
    return 2;
  run_threads(CHROOT_THREADS, chroot_work, NULL, 0);
  int child = fork(), status;
  if (child == 0) {
    chroot_work(NULL);
    _exit(4);
  }
  waitpid(child, &status, 0);
  printf("%d, child %#x\n", (int)getuid(), (unsigned)status);
  return 0;
}

static int chroot_test(void) {
  struct recorded recorded = same_as_bare(NULL, NULL);
  rmdir("empty");
  CHECK(recorded.dropped == 0 && recorded.events >= 2ull * CHROOT_PAIRS * (CHROOT_THREADS + 1),
        "%lu events, %lu dropped", recorded.events, recorded.dropped);
  char paths[3][256];
  CHECK(list_traces(paths, 3) == 2, "the fork child has no trace");
  return 0;
}

/* Every entry point leaves errno as the real call does: untouched where it succeeds, ENOMEM where it fails; also where
   the call waits for the collector, attaches to it, or is a thread's or a fork child's first. */

static volatile size_t huge = SIZE_MAX; /* volatile: the compiler warns of calls it knows to be too large */

#define KEEPS(call)                                                                                                    \
  do {                                                                                                                 \
    errno = EXDEV;                                                                                                     \
    keep((void *)(uintptr_t)(call));                                                                                   \
    CHECK(errno == EXDEV, #call " changed errno to %d", errno);                                                        \
  } while (0)

static void *errno_all_calls(void *context) {
  void *object, *other = NULL;
  (void)context;
  KEEPS(object = malloc(100));
  KEEPS(object = realloc(object, 100000));
  KEEPS(object = reallocarray(object, 10, 10));
  KEEPS(malloc_usable_size(object));
  KEEPS((free(object), 0));
  KEEPS(object = calloc(10, 10));
  KEEPS((free(object), 0));
  KEEPS((free(NULL), 0));
  KEEPS(posix_memalign(&other, 64, 100));
  KEEPS((free(other), 0));
  KEEPS(posix_memalign(&other, 3, 100));
  KEEPS(object = aligned_alloc(64, 128));
  KEEPS((free(object), 0));
  KEEPS(object = memalign(64, 128));
  KEEPS((free(object), 0));
  KEEPS(object = valloc(128));
  KEEPS((free(object), 0));
  KEEPS(object = pvalloc(128));
  KEEPS((free(object), 0));
  errno = 0;
  CHECK(!keep(malloc(huge / 2)) && errno == ENOMEM, "errno %d", errno);
  errno = 0;
  CHECK(!keep(reallocarray(NULL, huge, 16)) && errno == ENOMEM, "errno %d", errno);
  return NULL;
}

static int errno_host(void) {
  errno_all_calls(NULL);
  run_threads(1, errno_all_calls, NULL, 0);
  int pid = fork(), status;
  if (pid == 0) {
    errno_all_calls(NULL);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the fork child failed");
  for (int i = 0; i < 300000; i++) {
    void *object;
    KEEPS(object = malloc(32));
    KEEPS((free(object), 0));
  }
  return 0;
}

static int errno_test(void) {
  int status = record_self(NULL);
  CHECK(status == 0, "status %x", status);
  CHECK(read_trace("t.tape", NULL, NULL).events >= 600000, "too few events");
  return 0;
}

/* A hook needs at most as much stack more than the C library's function as docs/use/RECORDING.md says, in slow cases
   too: the first call of a thread and of a fork child, a full ring, a new bank; in threads, and in handlers on an
   alternate stack. Threads with the smallest possible stack, 16 KiB on x86-64, live. */

enum {
  STACK_PAIRS = 20000,
  STACK_THREADS = 20,
  SMALLEST_BYTES = 16 << 10,
  PAINTED_BYTES = 128 << 10,
  MOST_BYTES = 2 << 10,
  PAINT = 0x5a
};

static _Alignas(64) char painted[PAINTED_BYTES]; /* the measured stack */
static int depths;
static pthread_barrier_t together;

static void one_call(void) {
  free(keep(malloc(50)));
}

static void stack_all_calls(void) {
  void *object = NULL;
  for (int i = 0; i < STACK_PAIRS; i++)
    object = realloc(object, (size_t)(100 + i % 300));
  for (size_t bytes = 1024; bytes < 4 << 20; bytes *= 2) {
    object = memset(keep(realloc(object, bytes)), 1, bytes);
    free(keep(calloc(3, bytes)));
    free(keep(aligned_alloc(64, bytes)));
  }
  free(object);
}

static void write_depth_below(const char *from) {
  size_t clean = 0;
  while (painted[clean] == PAINT)
    clean++;
  dprintf(depths, "%zu\n", (size_t)(from - painted) - clean);
}

static __attribute__((noinline)) void measure(void (*work)(void)) {
  char *frame = __builtin_frame_address(0);
  memset(painted, PAINT, (size_t)(frame - painted) - 256);
  work();
  write_depth_below(frame);
}

static void *in_painted_thread(void *none) {
  measure(one_call);
  measure(one_call);
  measure(stack_all_calls);
  pid_t child = fork();
  if (child == 0) {
    measure(one_call);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return none;
}

static void stack_handler(int signal) {
  (void)signal;
  one_call();
}

static void *with_painted_handlers(void *none) {
  stack_t alternate = {.ss_sp = painted, .ss_size = PAINTED_BYTES};
  sigaltstack(&alternate, NULL);
  for (int i = 0; i < 2; i++) { /* the thread's first call is the handler's */
    memset(painted, PAINT, PAINTED_BYTES);
    raise(SIGUSR1);
    write_depth_below(painted + PAINTED_BYTES);
  }
  return none;
}

static void *in_smallest_thread(void *makes_all_calls) {
  one_call();
  pthread_barrier_wait(&together);
  if (makes_all_calls)
    stack_all_calls();
  pthread_barrier_wait(&together);
  return NULL;
}

static void run_thread(void *(*work)(void *), void *stack) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (stack)
    pthread_attr_setstack(&attributes, stack, PAINTED_BYTES);
  CHECK(pthread_create(&thread, &attributes, work, NULL) == 0 && pthread_join(thread, NULL) == 0, "no thread");
}

static int stack_host(void) {
  depths = open("depths", O_WRONLY | O_APPEND | O_CREAT, 0600);
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = stack_handler, .sa_flags = SA_ONSTACK}, NULL);
  pthread_barrier_init(&together, NULL, STACK_THREADS + 1);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
  pthread_t threads[STACK_THREADS];
  for (int i = 0; i < STACK_THREADS; i++)
    if (pthread_create(&threads[i], &attributes, in_smallest_thread, i % 5 ? NULL : &together) != 0)
      return 1;
  pthread_barrier_wait(&together);
  run_thread(in_painted_thread, painted); /* needs a new bank, as the first has 16 rings */
  pthread_barrier_wait(&together);
  for (int i = 0; i < STACK_THREADS; i++)
    pthread_join(threads[i], NULL);
  run_thread(in_painted_thread, painted);
  run_thread(with_painted_handlers, NULL);
  return 0;
}

/* How much more stack a recorded host uses than the bare one, at most. */
static long deeper(const char *const *options) {
  enum { MEASURED = 10 };
  long depth[2 * MEASURED], most = 0;
  unlink("depths");
  same_as_bare(options, NULL);
  FILE *file = fopen("depths", "r");
  for (int i = 0; i < 2 * MEASURED; i++)
    CHECK(file && fscanf(file, "%ld", &depth[i]) == 1, "depth %d is missing", i);
  fclose(file);
  for (int i = 0; i < MEASURED; i++)
    most = depth[MEASURED + i] - depth[i] > most ? depth[MEASURED + i] - depth[i] : most;
  return most;
}

static int stack_test(void) {
  static const char *const options[][5] = {
      {NULL},
      {"--stamp", "every", "--on-full", "drop", NULL},
      {"--stacks=256", "--latency", "--usable", NULL},
      {"--stacks=256", "--unwind", "fp", NULL},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    long bytes = deeper(options[i]);
    CHECK(bytes <= MOST_BYTES, "%ld bytes of stack with options %zu", bytes, i);
  }
  return 0;
}

/* A program that may open only one descriptor more than the standard ones, and uses it, is recorded completely: with
   RLIMIT_NOFILE 4 from the start by its launcher, and threads that begin while no descriptor is free. */

enum { FEW_PAIRS = 5000, FEW_THREADS = 40 };

static void *few_work(void *unused) {
  for (int i = 0; i < FEW_PAIRS; i++)
    free(keep(malloc(100)));
  return unused;
}

static int few_host(void) {
  struct rlimit limit = {4, 4};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 1;
  int taken = open("/dev/null", O_RDONLY);
  few_work(NULL);
  run_threads(FEW_THREADS, few_work, NULL, 0);
  printf("descriptor %d, another %d\n", taken, dup(taken));
  return 0;
}

static int few_test(void) {
  struct recorded recorded = same_as_bare(NULL, NULL);
  /* The threads beyond the first bank's rings may get none, which is counted. */
  uint64_t calls = 2ull * FEW_PAIRS * (FEW_THREADS + 1);
  CHECK(recorded.events + recorded.dropped >= calls, "%lu events, %lu dropped", recorded.events, recorded.dropped);
  CHECK(recorded.events >= 2ull * FEW_PAIRS * 15, "%lu events", recorded.events);
  return 0;
}

/* A program whose address space is limited, so that our rings may not fit, behaves as without us; half of the address
   space remains for a single object. Where it is not recorded, that is printed. */

static int limited(int mib) {
  size_t bytes = ((size_t)mib << 20) / (mib < 16 ? 8 : 2);
  char *object = keep(malloc(bytes));
  if (!object)
    return 3;
  memset(object, 1, bytes);
  free(object);
  for (int i = 0; i < 20000; i++)
    free(keep(malloc(100 + i % 1000)));
  return 0;
}

static int little_host(void) {
  if (host_arguments[0])
    return limited(atoi(host_arguments[0]));
  /* Below 8 MiB the library itself, about 1 MiB with its dependencies, may be too much. The limit holds for the exec'ed
     image from its first mapping on. */
  for (int mib = 8; mib <= 64; mib *= 2) {
    fflush(stdout);
    int child = fork(), status;
    if (child == 0) {
      struct rlimit limit = {(rlim_t)mib << 20, (rlim_t)mib << 20};
      setrlimit(RLIMIT_AS, &limit);
      char number[12];
      snprintf(number, sizeof number, "%d", mib);
      execl("/proc/self/exe", claim_name(), "limited", number, NULL);
      _exit(9);
    }
    waitpid(child, &status, 0);
    printf("%d MiB: %#x\n", mib, (unsigned)status);
  }
  return 0;
}

static int little_test(void) {
  same_as_bare(NULL, NULL);
  return 0;
}

/* Signal mask and dispositions, limits, descriptors, children, umask, session, errno and exit status of a recorded
   program are those that it has without us; the same holds for programs that it starts. */

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
      printf("limit %d: %lu %lu\n", i, limit.rlim_cur, limit.rlim_max);
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

static void world_handler(int signal) {
  (void)signal;
}

static int world_host(void) {
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
  signal(SIGTERM, world_handler);
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
  execl("/proc/self/exe", claim_name(), "host", "again", NULL);
  return 1;
}

static int world_test(void) {
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

/* A host that puts itself under a seccomp filter which kills processes that call mincore survives, a sample later, and
   its trace has no resident OS pages of objects that it releases from then on. */

enum { OBJECT_BYTES = 1 << 20, RESIDENT_CAN_NOT = 77 };

static void release_one(void) {
  char *object = keep(malloc(OBJECT_BYTES));
  memset(object, 1, OBJECT_BYTES);
  free(object);
}

/* The number of the recorder's read calls; 0 where the kernel does not report it. */
static unsigned long reads_of_recorder(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/io", getppid());
  FILE *file = fopen(path, "r");
  unsigned long reads = 0;
  if (!file || fscanf(file, "rchar: %*u wchar: %*u syscr: %lu", &reads) != 1)
    reads = 0;
  if (file)
    fclose(file);
  return reads;
}

/* Waits until the recorder has taken some more samples of us, of two reads each. */
static void wait_for_samples(void) {
  enum { SAMPLES = 10, LOOKS = 60000 };
  unsigned long before = reads_of_recorder();
  struct timespec pause = {before ? 0 : 1, 2000000};
  for (int look = 0; look < LOOKS; look++) {
    nanosleep(&pause, NULL);
    if (!before || reads_of_recorder() >= before + SAMPLES * 2)
      return;
  }
}

static int resident_host(void) {
  release_one();
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the call's number */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return RESIDENT_CAN_NOT;
  wait_for_samples();
  release_one();
  return 0;
}

static int large, known;

static void resident_count(void *context, uint32_t thread, const struct trace_event *event) {
  (void)context;
  (void)thread;
  large += event->call == CALL_malloc && event->size_bytes == OBJECT_BYTES;
  known += event->touched_os_pages != 0;
}

static int resident_test(void) {
  int status = record_self(NULL);
  if (status == RESIDENT_CAN_NOT << 8) {
    puts("no seccomp filters here");
    return 77;
  }
  CHECK(status == 0, "the host ended with wait status %#x", status);
  read_trace("t.tape", resident_count, NULL);
  CHECK(large == 2 && known == 1, "%d large objects, %d known", large, known);
  return 0;
}

/* A program that closes every descriptor again and again, opens others in their place, and starts threads meanwhile:
   all is recorded, and we write nothing into its files. */

enum { ROUNDS = 100, CLOSED_BYTES = 5555 };

static void *run(void *context) {
  (void)context;
  free(keep(malloc(CLOSED_BYTES)));
  return NULL;
}

static int closed_host(void) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int fd = 0; fd < 64; fd++)
      close(fd);
    for (int fd = 0; fd < 3; fd++)
      if (open("filled", O_RDWR | O_CREAT, 0600) != fd)
        return 2;
    run_threads(1, run, NULL, 0);
    for (int i = 0; i < 2000; i++)
      run(NULL);
    if (fcntl(3, F_GETFD) != -1)
      return 4; /* a descriptor was left open */
  }
  return 0;
}

static int closed_test(void) {
  int status = record_self(NULL);
  CHECK(status == 0, "status %x", status);
  int counted = (int)count_events("t.tape", -1, CLOSED_BYTES);
  CHECK(counted == ROUNDS * 2001, "%d calls", counted);
  struct stat filled;
  CHECK(stat("filled", &filled) == 0 && filled.st_size == 0, "%ld bytes were written into the host's file",
        (long)filled.st_size);
  return 0;
}

/* A program under a filter that kills it for every system call except the few that its allocator and its end need fills
   its ring many times, gets signals and survives; all is recorded, whether the filter was set by prctl or by
   syscall(SYS_seccomp). In strict mode, which also forbids the cycle counter, its calls are counted. */

enum { SANDBOX_PAIRS = 100000, SANDBOX_BYTES = 60, LARGE_BYTES = 100 << 10, SANDBOX_CAN_NOT = 77, WAYS = 3 };

static void sandbox_handler(int signal) {
  (void)signal;
  free(keep(malloc(SANDBOX_BYTES)));
}

static void call(void) {
  for (int i = 0; i < SANDBOX_PAIRS; i++)
    free(keep(malloc(SANDBOX_BYTES)));
  for (int i = 0; i < 10; i++)
    free(keep(malloc(LARGE_BYTES))); /* the OS pages of large objects are counted */
}

static int enter(int way) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (way == 0)
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  return way == 1 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
                  : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}

static int sandbox_host(void) {
  for (int way = 0; way < WAYS; way++) {
    int child = fork(), status;
    if (child == 0) {
      int self = getpid();
      signal(SIGUSR1, sandbox_handler);
      free(keep(malloc(2 * LARGE_BYTES))); /* the heap is large enough before brk is forbidden */
      if (enter(way) != 0)
        _exit(SANDBOX_CAN_NOT);
      call();
      if (way)
        for (int i = 0; i < 1000; i++)
          kill(self, SIGUSR1);
      call();
      if (write(1, "done\n", 5) != 5)
        syscall(SYS_exit, 2);
      syscall(SYS_exit, 3);
    }
    waitpid(child, &status, 0);
    if (status == SANDBOX_CAN_NOT << 8) {
      puts("no seccomp filters here");
      return SANDBOX_CAN_NOT;
    }
    printf("%d: %#x\n", way, (unsigned)status);
    fflush(stdout);
  }
  return 0;
}

static int sandbox_test(void) {
  same_as_bare(NULL, NULL);
  char paths[WAYS + 2][256];
  CHECK(list_traces(paths, WAYS + 2) == WAYS + 1, "not a trace for each process");
  int with_signals = 0, strict = 0;
  for (int i = 0; i <= WAYS; i++) {
    struct recorded recorded = read_trace(paths[i], NULL, NULL);
    int counts[2] = {(int)count_events(paths[i], -1, SANDBOX_BYTES), (int)count_events(paths[i], -1, LARGE_BYTES)};
    if (!recorded.dropped && counts[0] == 0) /* the parent */
      continue;
    if (recorded.dropped) {
      strict++;
      CHECK(recorded.dropped >= 4 * SANDBOX_PAIRS + 40 && recorded.dropped <= 4 * SANDBOX_PAIRS + 60,
            "%lu calls counted", recorded.dropped);
      continue;
    }
    CHECK(counts[0] == 2 * SANDBOX_PAIRS || counts[0] == 2 * SANDBOX_PAIRS + 1000, "%d small allocations", counts[0]);
    CHECK(counts[1] == 20, "%d large ones", counts[1]);
    with_signals += counts[0] > 2 * SANDBOX_PAIRS;
  }
  CHECK(strict == 1 && with_signals == WAYS - 1, "%d strict, %d had signals", strict, with_signals);
  return 0;
}

const struct claim claims[] = {
    {"chrooted_host_without_proc_is_recorded", chroot_test, chroot_host, ANYWHERE},
    {"errno_is_preserved_by_every_call", errno_test, errno_host, ANYWHERE},
    {"hooks_need_little_stack", stack_test, stack_host, ANYWHERE},
    {"host_of_few_descriptors_is_recorded", few_test, few_host, ANYWHERE},
    {"host_of_little_address_space_lives", little_test, little_host, ANYWHERE},
    {"host_sees_the_world_as_without_us", world_test, world_host, ANYWHERE},
    {"no_resident_os_pages_of_a_sandboxed_host_are_recorded", resident_test, resident_host, ANYWHERE},
    {"program_that_closes_all_descriptors_is_recorded", closed_test, closed_host, ANYWHERE},
    {"sandboxed_host_is_not_killed_by_us", sandbox_test, sandbox_host, ANYWHERE},
    {.name = NULL},
};
