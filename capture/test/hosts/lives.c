/* SPDX-License-Identifier: MIT */
#include "capture/test/hosts/recording.h"
#include "capture/test/shared_page.h"

#include <sys/ptrace.h>
#include <sys/user.h>

/* Calls made by destructors of thread-specific data (also ones that set it again, so that they run in several rounds),
   by atexit handlers and by destructors of the program: all are events. */

enum { LATE_THREADS = 8, ROUNDS = 3, LATE_BYTES = 1234 };

static pthread_key_t key;
static __thread int rounds;

static void call(void) {
  for (int i = 0; i < 10; i++)
    free(keep(malloc(LATE_BYTES)));
}

static void at_thread_end(void *object) {
  free(object);
  call();
  if (++rounds < ROUNDS)
    pthread_setspecific(key, malloc(LATE_BYTES));
}

static void *late_work(void *unused) {
  pthread_setspecific(key, malloc(LATE_BYTES));
  return unused;
}

/* A thread whose only calls are those of its destructor. */
static void *idle(void *unused) {
  pthread_setspecific(key, &rounds);
  return unused;
}

static void at_idle_end(void *unused) {
  (void)unused;
  call();
}

__attribute__((destructor)) static void at_program_end(void) {
  if (rounds == -1)
    call();
}

static int late_host(void) {
  pthread_key_create(&key, at_thread_end);
  run_threads(LATE_THREADS, late_work, NULL, 0);
  pthread_key_delete(key);
  pthread_key_create(&key, at_idle_end);
  run_threads(1, idle, NULL, 0);
  atexit(call);
  rounds = -1;
  return 0;
}

static int late_test(void) {
  same_as_bare(NULL, NULL);
  int seen = (int)count_events("t.tape", CALL_malloc, LATE_BYTES);
  int expected = LATE_THREADS * ROUNDS * 11 + 10 + 10 + 10;
  CHECK(seen == expected, "%d allocations, not %d", seen, expected);
  return 0;
}

/* exec in the same process ends one trace with "exec" and starts another, with as many threads as the new image has. */

static int exec_host(void) {
  if (host_arguments[0])
    return 0;
  for (int i = 0; i < 1000; i++)
    free(keep(malloc(100)));
  execl("/proc/self/exe", claim_name(), "host", "again", NULL);
  return 1;
}

static int exec_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  char paths[4][256];
  CHECK(list_traces(paths, 4) == 2, "two traces were expected");
  struct recorded before = read_trace("t.tape", NULL, NULL);
  CHECK(strcmp(before.end, "exec") == 0 && before.calls[CALL_malloc] >= 1000, "end %s", before.end);
  struct recorded after = read_trace(strcmp(paths[0], "t.tape") ? paths[0] : paths[1], NULL, NULL);
  CHECK(strcmp(after.end, "exit") == 0 && after.events < 1000, "end %s", after.end);
  return 0;
}

/* The collector is killed while two threads allocate: the host finishes its work, starts threads and forks as before,
   and the part of the trace that was written can be read. */

static void *orphan_run(void *context) {
  for (int i = 0; i < 1000000; i++)
    free(keep(malloc(100)));
  return context;
}

static int orphan_host(void) {
  pthread_t threads[2];
  int recorder = getppid();
  pthread_create(&threads[0], NULL, orphan_run, NULL);
  usleep(20000);
  kill(recorder, SIGKILL);
  pthread_create(&threads[1], NULL, orphan_run, NULL);
  orphan_run(NULL);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  int child = fork(), status;
  if (child == 0)
    _exit(orphan_run(NULL) != NULL);
  waitpid(child, &status, 0);
  FILE *done = fopen("done", "w");
  if (status == 0 && done)
    fclose(done);
  return 0;
}

static int orphan_test(void) {
  int status = record_self(NULL);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", status);
  for (int i = 0; access("done", F_OK) != 0; i++) {
    CHECK(i < 12000, "the host did not finish in 120 s");
    usleep(10000);
  }
  CHECK(read_trace("t.tape", NULL, NULL).truncated, "the trace does not say that it is truncated");
  return 0;
}

/* 10,000 threads, most of which end before the next begins: the calls of each are recorded, under its own thread
   number, and the host's memory for them does not grow with their number. */

enum { BRIEF_THREADS = 10000, BRIEF_BYTES = 7777, RSS_LIMIT_KIB = 32 << 10 };

static void *brief_run(void *context) {
  (void)context;
  for (int i = 0; i < 3; i++)
    free(keep(malloc(BRIEF_BYTES)));
  return NULL;
}

static long shared_kib(void) {
  char line[256];
  long kib = -1;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (strncmp(line, "RssShmem:", 9) == 0)
      kib = atol(line + 9);
  if (status)
    fclose(status);
  return kib;
}

static int brief_host(void) {
  enum { AT_ONCE = 4 };
  for (int i = 0; i < BRIEF_THREADS; i += AT_ONCE)
    run_threads(AT_ONCE, brief_run, NULL, 0);
  CHECK(shared_kib() < RSS_LIMIT_KIB, "%ld KiB of shared memory", shared_kib());
  return 0;
}

static void brief_count(void *context, uint32_t thread, const struct trace_event *event) {
  if (event->size_bytes == BRIEF_BYTES && (event->call & CALL_ID_MASK) == CALL_malloc)
    ((int *)context)[thread]++;
}

static int brief_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  static int counts[4 * BRIEF_THREADS];
  struct recorded recorded = read_trace("t.tape", brief_count, counts);
  CHECK(recorded.threads > BRIEF_THREADS && recorded.threads <= BRIEF_THREADS + 1, "%u threads", recorded.threads);
  for (uint32_t thread = 0; thread < recorded.threads; thread++)
    CHECK(counts[thread] == 3 || (counts[thread] == 0 && thread == 0), "thread %u: %d calls", thread, counts[thread]);
  return 0;
}

/* 1,000 threads that live at the same time, each with calls before and after all of them have begun: none is lost, each
   has its own number, and an idle one costs little. */

enum { CROWD_THREADS = 1000, PAIRS = 200, STACK_BYTES = 64 << 10 };

static pthread_barrier_t all_begun;

static void *crowd_work(void *unused) {
  for (int i = 0; i < PAIRS; i++)
    free(keep(malloc(100)));
  pthread_barrier_wait(&all_begun);
  for (int i = 0; i < PAIRS; i++)
    free(keep(malloc(100)));
  return unused;
}

static int crowd_host(void) {
  static pthread_t threads[CROWD_THREADS];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_barrier_init(&all_begun, NULL, CROWD_THREADS);
  for (int i = 0; i < CROWD_THREADS; i++)
    if (pthread_create(&threads[i], &attributes, crowd_work, NULL) != 0)
      exit(1);
  for (int i = 0; i < CROWD_THREADS; i++)
    pthread_join(threads[i], NULL);
  return 0;
}

static int crowd_test(void) {
  struct recorded recorded = same_as_bare(NULL, NULL);
  CHECK(recorded.dropped == 0 && recorded.events >= 4ull * PAIRS * CROWD_THREADS, "%lu events, %lu dropped",
        recorded.events, recorded.dropped);
  CHECK(recorded.threads == CROWD_THREADS + 1, "%u threads", recorded.threads);
  return 0;
}

/* Fork children wait for a collector that answers none of them: 30 s, or 10 minutes while it serves others; in slices
   of a quarter of a second. Their parent makes these take no time: it traces them, and each wait for the reply ends at
   once, in vain. In a few of them the collector has served someone in truth: the child before has ended. */

enum { PATIENT_BYTES = 3000, SLICES_ALONE = 120, SLICES_SERVED = 2400 };

static const struct patience {
  int slices;     /* after which the collector answers */
  bool is_served; /* does it serve others meanwhile? */
  bool is_recorded;
} patience[] = {
    {SLICES_ALONE - 2, false, true},
    {SLICES_ALONE + 5, false, false},
    {SLICES_SERVED - 2, true, true},
    {SLICES_SERVED, true, false},
};
enum { PATIENT_CHILDREN = sizeof patience / sizeof *patience };

#if defined(__x86_64__)
static void let_wait(int child, const struct patience *its, struct control *page) {
  struct user_regs_struct registers;
  int status, left = its->slices;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    ptrace(PTRACE_GETREGS, child, NULL, &registers);
    if (left && WSTOPSIG(status) == (SIGTRAP | 0x80) && registers.orig_rax == SYS_recvmsg) { /* before the call */
      registers.orig_rax = (unsigned long long)-1;
      ptrace(PTRACE_SETREGS, child, NULL, &registers);
      ptrace(PTRACE_SYSCALL, child, NULL, NULL);
      if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        exit(3);
      registers.rax = (unsigned long long)-EAGAIN;
      ptrace(PTRACE_SETREGS, child, NULL, &registers);
      left--;
      atomic_fetch_add(&page->served, its->is_served);
    }
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);
  }
  if (status != 0)
    exit(4);
}

static int patience_host(void) {
  struct control *page = shared_page();
  if (!page)
    return 2;
  for (int i = 0; i < PATIENT_CHILDREN; i++) {
    int child = fork();
    if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, NULL, NULL);
      raise(SIGSTOP);
      free(keep(malloc((size_t)(PATIENT_BYTES + i))));
      _exit(0);
    }
    waitpid(child, NULL, 0);
    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD);
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    let_wait(child, &patience[i], page);
  }
  return 0;
}
#else
static int patience_host(void) {
  return 77;
}
#endif

static int patience_test(void) {
  char paths[PATIENT_CHILDREN + 2][256];
  int status = record_self((const char *const[]){"--all-processes", NULL});
  if (status == 77 << 8) {
    puts("system calls are ended for x86-64 only");
    return 77;
  }
  CHECK(status == 0, "the host ended with wait status %#x", status);
  int traces = list_traces(paths, PATIENT_CHILDREN + 2);
  for (int i = 0; i < PATIENT_CHILDREN; i++) {
    uint64_t calls = 0;
    for (int k = 0; k < traces; k++)
      calls += count_events(paths[k], CALL_malloc, (uint64_t)(PATIENT_BYTES + i));
    CHECK(calls == patience[i].is_recorded, "child %d: %lu calls", i, calls);
  }
  return 0;
}

const struct claim claims[] = {
    {"calls_after_the_end_are_recorded", late_test, late_host, ANYWHERE},
    {"exec_starts_a_new_trace", exec_test, exec_host, ANYWHERE},
    {"fork_child_waits_longer_for_a_collector_that_serves_others", patience_test, patience_host, ANYWHERE},
    {"host_survives_collector_killed", orphan_test, orphan_host, ANYWHERE},
    {"ten_thousand_short_threads_are_all_recorded", brief_test, brief_host, ANYWHERE},
    {"thousand_live_threads_are_recorded", crowd_test, crowd_host, ANYWHERE},
    {.name = NULL},
};
