/* SPDX-License-Identifier: MIT */
#include "capture/test/hosts/recording.h"
#include "capture/test/hosts/single_step.h"
#include "capture/wire/heaptape.h"

/* A handler interrupts after each instruction of a hook in turn (`make test`: after every seventh; after a pause, every
   fifth of these), and allocates and frees, or leaves by siglongjmp: the calls of both are recorded exactly, in their
   order. The hooks are in their common case, in the case where another thread has touched the object's place last, and
   in the case after a pause, where they make room. */

enum {
  HANDLER_MAIN_BYTES = 600,
  HANDLER_RESIZED_BYTES = 610,
  HANDLER_HANDLER_BYTES = 3000,
  HANDLER_AFTER_BYTES = 5050,
  STEPS_MAX = 2000,
  STRIDE = 5
};

static sigjmp_buf handler_back;
static void *of_other_thread[STEPS_MAX];
static int handled;
static enum { OF_MALLOC, OF_REALLOC, OF_FREE, STEPPED } stepped; /* one of three calls, as each step takes long */

static void allocate(void) {
  handled++;
  free(keep(malloc(HANDLER_HANDLER_BYTES)));
}
static void handler_leave(void) {
  siglongjmp(handler_back, 1);
}

static void *make(void *unused) {
  for (int i = 0; i < STEPS_MAX; i++)
    of_other_thread[i] = malloc(HANDLER_MAIN_BYTES);
  return unused;
}

/* Were the calls over before instruction `at`? */
static bool were_over(int at) {
  return !step_gave_up && step_count <= at;
}

static bool local(int at) {
  if (stepped == OF_MALLOC)
    step_begin(at);
  void *object = keep(malloc(HANDLER_MAIN_BYTES));
  step_end();
  if (stepped == OF_REALLOC)
    step_begin(at);
  object = keep(realloc(object, HANDLER_RESIZED_BYTES));
  step_end();
  if (stepped == OF_FREE)
    step_begin(at);
  free(object);
  step_end();
  return were_over(at);
}
static bool remote(int at) {
  step_begin(at);
  free(of_other_thread[at]);
  step_end();
  return were_over(at);
}

static bool after_a_pause(int at) {
  heaptape_pause();
  free(keep(malloc(HANDLER_MAIN_BYTES)));
  heaptape_resume();
  step_begin(at);
  free(keep(malloc(HANDLER_MAIN_BYTES)));
  step_end();
  return were_over(at);
}

/* Interrupts after every stride-th instruction. Returns how often. */
static int go_through(bool (*calls)(int at), int stride) {
  for (volatile int at = 0; at < STEPS_MAX * stride; at += stride) {
    if (sigsetjmp(handler_back, 1) == 0 && calls(at))
      return at / stride;
    for (int i = 0; i < 3; i++)
      free(keep(malloc(HANDLER_AFTER_BYTES)));
  }
  CHECK(false, "more than %d instructions", STEPS_MAX * stride);
  return 0;
}

static int handler_host(void) {
  const char *examples = getenv("HEAPTAPE_EXAMPLES");
  int stride = examples && strcmp(examples, "few") == 0 ? 7 : 1;
  pthread_t other;
  for (int leaves = 0; leaves < 2; leaves++) {
    CHECK(pthread_create(&other, NULL, make, NULL) == 0 && pthread_join(other, NULL) == 0, "a thread");
    step_prepare(leaves ? handler_leave : allocate);
    int steps_local = 0;
    for (stepped = OF_MALLOC; stepped < STEPPED; stepped++)
      steps_local += go_through(local, stride);
    int steps_remote = go_through(remote, stride), pauses = go_through(after_a_pause, STRIDE * stride);
    CHECK(stride * steps_local > 50 && stride * steps_remote > 20 && pauses > 5, "only %d, %d and %d instructions",
          stride * steps_local, stride * steps_remote, STRIDE * stride * pauses);
    FILE *file = fopen("calls", "a");
    CHECK(file && fprintf(file, "%d %d\n", steps_local + steps_remote + pauses, handled) > 0, "calls");
    CHECK(fclose(file) == 0, "calls");
  }
  return 0;
}

/* Of the recording of handler_host. */
static int handler_check(void) {
  int steps[2], allocations[2];
  FILE *file = fopen("calls", "r");
  for (int i = 0; i < 2; i++)
    CHECK(file && fscanf(file, "%d %d", &steps[i], &allocations[i]) == 2, "calls");
  fclose(file);
  struct pairs seen[] = {{.size_bytes = HANDLER_HANDLER_BYTES}, {.size_bytes = HANDLER_AFTER_BYTES}, {0}};
  read_trace("t.tape", count_pairs, seen);
  int after = 3 * (steps[0] + steps[1]);
  CHECK(seen[0].acquired == allocations[1] && seen[0].released == allocations[1], "handler: %ld, %ld of %d",
        seen[0].acquired, seen[0].released, allocations[1]);
  CHECK(seen[1].acquired == after && seen[1].released == after, "after it: %ld, %ld of %d", seen[1].acquired,
        seen[1].released, after);
  return 0;
}

static int handler_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  return handler_check();
}

/* Every instruction of the allocator can be interrupted, too. */
static int handler_other_allocator_test(void) {
  record_self_on_bump();
  return handler_check();
}

/* A handler that interrupts after each instruction of a hook makes many calls: where it interrupts the writing of a
   record, as many as fit into the side buffer are recorded (malloc takes two records, free one), the others counted. */

enum { SIDE_BYTES = 900, SIDE_PAIRS = 100, SIDE_KEPT_PAIRS = 96 / 3 };

static void make_many(void) {
  handled++;
  for (int i = 0; i < SIDE_PAIRS; i++)
    free(keep(malloc(SIDE_BYTES)));
}

static int side_host(void) {
  step_prepare(make_many);
  for (stepped = OF_MALLOC; stepped < STEPPED; stepped++)
    go_through(local, 1);
  *(int *)shared_counts() = handled;
  return 0;
}

static int side_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  struct pairs seen[] = {{.size_bytes = SIDE_BYTES}, {0}};
  struct recorded recorded = read_trace("t.tape", count_pairs, seen);
  long pairs = (long)*(int *)shared_counts() * SIDE_PAIRS, missing = pairs - seen->acquired;
  CHECK(seen->acquired == seen->released && recorded.dropped == 2 * (uint64_t)missing,
        "%ld and %ld of %ld, %lu dropped", seen->acquired, seen->released, pairs, recorded.dropped);
  CHECK(missing > 0 && missing % (SIDE_PAIRS - SIDE_KEPT_PAIRS) == 0, "%ld pairs are missing", missing);
  return 0;
}

/* A handler interrupts between taking a slot and writing its record, fills the ring, and is itself interrupted at such
   a place, six deep: the handlers' records are exact, also after the interrupted calls have been completed, which are
   recorded or counted as dropped. The same where the handlers leave by siglongjmp, two hundred times.

   Single steps take so long that the recorder's tick would advance in the middle of most of these calls, which would
   then not be in the common case. So the recorder is stopped meanwhile; a timer lets it continue where the host must
   wait for it. */

enum {
  LEVELS = 6,
  LEFT = 40,   /* per instruction */
  LAST = 20,   /* instructions of the hook of calloc, among which are those between taking and writing */
  FILL = 8600, /* objects: they have more records than a ring holds */
  FILL_BYTES = 700,
  STOPPED_MOST_US = 50000,
  SLOTS_MAIN_BYTES = 25, /* so that an object is mostly at the tag entry of the previous one */
};

static int depth, at_instruction;
static sigjmp_buf slots_back;

static volatile sig_atomic_t goes_on;

static void recorder_goes_on(int signal) {
  (void)signal;
  goes_on = 1;
  kill(getppid(), SIGCONT);
}

static bool recorder_has_stopped(void) {
  char path[32], stat[128];
  snprintf(path, sizeof path, "/proc/%d/stat", getppid());
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = read(fd, stat, sizeof stat - 1);
  close(fd);
  stat[bytes > 0 ? bytes : 0] = '\0';
  const char *after_name = strrchr(stat, ')');
  return after_name && strncmp(after_name, ") T", 3) == 0;
}

static void stop_recorder(void) {
  goes_on = 0;
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = STOPPED_MOST_US}, NULL);
  kill(getppid(), SIGSTOP);
  while (!goes_on && !recorder_has_stopped())
    usleep(20);
}

static void continue_recorder(void) {
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 0}, NULL);
  recorder_goes_on(0);
}

static void fill(void) {
  for (int i = 0; i < FILL; i++)
    free(keep(malloc(FILL_BYTES)));
}

/* A calloc, two records, which is interrupted. The call before it makes it the common case. */
static void slots_call(void) {
  depth++;
  stop_recorder();
  keep(calloc(1, SLOTS_MAIN_BYTES));
  step_begin(at_instruction);
  keep(calloc(1, SLOTS_MAIN_BYTES));
  step_end();
  continue_recorder();
}

static void nest(void) {
  continue_recorder();
  sigset_t trap;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  sigprocmask(SIG_UNBLOCK, &trap, NULL);
  fill();
  if (depth < LEVELS)
    slots_call();
}

/* The instructions of a call in the common case. */
static int least_instructions(void) {
  enum { TRIES = 16 };
  int least = INT_MAX;
  at_instruction = INT_MAX;
  for (int i = 0; i < TRIES; i++) {
    slots_call();
    least = step_count < least ? step_count : least;
  }
  return least;
}

static void slots_leave(void) {
  continue_recorder();
  siglongjmp(slots_back, 1);
}

static int slots_host(void) {
  signal(SIGALRM, recorder_goes_on);
  step_prepare(nest);
  int from = least_instructions() - LAST;
  for (at_instruction = from; at_instruction < from + LAST; at_instruction++) {
    depth = 0;
    slots_call();
    fill();
  }
  step_prepare(slots_leave);
  for (at_instruction = from; at_instruction < from + LAST; at_instruction += 4)
    for (volatile int i = 0; i < LEFT; i++)
      if (sigsetjmp(slots_back, 1) == 0)
        slots_call();
  fill();
  return 0;
}

static int slots_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  struct pairs seen[] = {{.size_bytes = FILL_BYTES}, {0}};
  struct recorded recorded = read_trace("t.tape", count_pairs, seen);
  long callocs = (long)count_events("t.tape", CALL_calloc, SLOTS_MAIN_BYTES);
  long fills = ((long)LAST * (LEVELS + 1) + 1) * FILL, calls = 2 * LAST * LEVELS;
  CHECK(seen->acquired == fills && seen->released == fills, "%ld, %ld of %ld", seen->acquired, seen->released, fills);
  CHECK(callocs + (long)recorded.dropped >= calls, "%ld recorded and %lu dropped of %ld", callocs, recorded.dropped,
        calls);
  CHECK(recorded.dropped > 0, "no call was interrupted where it was meant");
  return 0;
}

/* A handler that leaves by siglongjmp, again and again and at any place: all later calls of the program are recorded,
   nothing is dropped, and no record is broken. The allocator tolerates this. */

enum { JUMPS = 5000, JUMPING_BYTES = 40, LONGJMP_AFTER_BYTES = 5050, AFTER = 1000 };

static sigjmp_buf longjmp_back;
static volatile int jumps;
static volatile sig_atomic_t ready;

static void longjmp_handler(int signal) {
  (void)signal;
  if (ready)
    siglongjmp(longjmp_back, 1);
}

static void *longjmp_shoot(void *target) {
  struct timespec pause = {0, 2000};
  while (jumps < JUMPS) {
    pthread_kill(*(pthread_t *)target, SIGUSR1);
    nanosleep(&pause, NULL);
  }
  return NULL;
}

static int longjmp_host(void) {
  pthread_t self = pthread_self(), shooter;
  signal(SIGUSR1, longjmp_handler);
  if (pthread_create(&shooter, NULL, longjmp_shoot, &self) != 0)
    return 1;
  if (sigsetjmp(longjmp_back, 1) != 0)
    jumps++;
  ready = 1;
  while (jumps < JUMPS)
    free(keep(realloc(keep(malloc(JUMPING_BYTES)), JUMPING_BYTES)));
  ready = 0;
  pthread_join(shooter, NULL);
  for (int i = 0; i < AFTER; i++)
    free(keep(malloc(LONGJMP_AFTER_BYTES)));
  return 0;
}

static int longjmp_test(void) {
  record_self_on_bump();
  struct pairs seen[] = {{.size_bytes = LONGJMP_AFTER_BYTES}, {0}};
  struct recorded recorded = read_trace("t.tape", count_pairs, seen);
  CHECK(recorded.dropped == 0, "%lu dropped", recorded.dropped);
  CHECK(seen->acquired == AFTER && seen->released == AFTER, "%ld, %ld of %d", seen->acquired, seen->released, AFTER);
  return 0;
}

/* SIGKILL comes after each instruction of a hook in turn, each time in another child: its trace has every call that had
   returned, at most also the interrupted one, and is complete. */

enum { ANYWHERE_BYTES = 600, BEFORE = 5, CHILDREN_MAX = 200 };

static struct { int pid, allocated, freed; } * anywhere_calls; /* of each child, in a file that the driver reads */

static void die(void) {
  kill(getpid(), SIGKILL);
}

static void anywhere_call(int child) {
  void *object = keep(malloc(ANYWHERE_BYTES));
  anywhere_calls[child].allocated++;
  free(object);
  anywhere_calls[child].freed++;
}

/* True: it was not killed. */
static bool run_child(int child) {
  int pid = fork(), status;
  if (pid == 0) {
    anywhere_calls[child].pid = getpid();
    for (int i = 0; i < BEFORE; i++)
      anywhere_call(child);
    step_begin(child);
    anywhere_call(child);
    step_end();
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
  return WIFEXITED(status);
}

static int anywhere_host(void) {
  anywhere_calls = shared_counts();
  step_prepare(die);
  int child = 0;
  while (!run_child(child))
    CHECK(++child < CHILDREN_MAX, "more than %d instructions", CHILDREN_MAX);
  CHECK(child > 20, "only %d instructions", child);
  return 0;
}

static int anywhere_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  anywhere_calls = shared_counts();
  int child = 0;
  for (; child < CHILDREN_MAX && anywhere_calls[child].pid; child++) {
    char path[64];
    snprintf(path, sizeof path, "t.%d.tape", anywhere_calls[child].pid);
    if (access(path, F_OK) != 0) /* of the process with most calls */
      snprintf(path, sizeof path, "t.tape");
    struct pairs seen[] = {{.size_bytes = ANYWHERE_BYTES}, {0}};
    struct recorded recorded = read_trace(path, count_pairs, seen);
    long acquired = seen->acquired - anywhere_calls[child].allocated;
    long released = seen->released - anywhere_calls[child].freed;
    CHECK(recorded.dropped == 0 && !recorded.truncated, "%s: dropped or truncated", path);
    CHECK(acquired == 0 || acquired == 1, "child %d: %ld more allocations than returned", child, acquired);
    CHECK(released == 0 || released == 1, "child %d: %ld more frees than returned", child, released);
  }
  CHECK(child > 20, "only %d children", child);
  return 0;
}

/* A handler that allocates, frees and resizes interrupts a program that does the same, as often as the machine can:
   events are exactly the calls made, each object released was handed out before by the same thread. Only where the
   recorder gets no processor for so long that the handlers' events no longer fit into the side buffer may some be
   missing; they are counted. The allocator tolerates this. */

enum {
  STORM_MAIN_BYTES = 40,
  STORM_HANDLER_BYTES = 3000,
  STORM_RESIZED_BYTES = 4000,
  SIGNALS = 40000,
  HANDLER_CALLS = 3000
};

static unsigned long
    *storm_calls; /* [0] of the program, [1] of the handler; the host's, in a file that the driver reads */
static atomic_bool over;

static void storm_handler(int signal) {
  (void)signal;
  free(keep(realloc(keep(malloc(STORM_HANDLER_BYTES)), STORM_RESIZED_BYTES)));
  storm_calls[1] += 3;
}

/* Signals that arrive while the thread waits for a processor are delivered as one: it continues until enough were. */
static void *storm_shoot(void *target) {
  struct timespec pause = {0, 1000};
  for (int i = 0; i < SIGNALS || storm_calls[1] <= HANDLER_CALLS; i++) {
    pthread_kill(*(pthread_t *)target, SIGUSR1);
    if (i % 8 == 0)
      nanosleep(&pause, NULL);
  }
  atomic_store(&over, true);
  return NULL;
}

static int storm_host(void) {
  storm_calls = shared_counts();
  pthread_t self = pthread_self(), shooter;
  signal(SIGUSR1, storm_handler);
  CHECK(pthread_create(&shooter, NULL, storm_shoot, &self) == 0, "pthread_create");
  while (!atomic_load(&over)) {
    free(keep(realloc(keep(malloc(STORM_MAIN_BYTES)), STORM_MAIN_BYTES + 1)));
    storm_calls[0] += 3;
  }
  return 0;
}

struct storm_seen {
  uint64_t last[3]; /* the object that the program, or the handler, has just been given */
  unsigned long program, by_handler, strange;
};

static void check_event(void *context, uint32_t thread, const struct trace_event *event) {
  struct storm_seen *seen = context;
  if (thread != 0)
    return;
  int id = event->call & CALL_ID_MASK;
  bool small = event->size_bytes == STORM_MAIN_BYTES || event->size_bytes == STORM_MAIN_BYTES + 1;
  bool large = event->size_bytes == STORM_HANDLER_BYTES || event->size_bytes == STORM_RESIZED_BYTES;
  if (id == CALL_malloc && (small || large)) {
    *(small ? &seen->program : &seen->by_handler) += 1;
    seen->last[large] = event->acquired;
  } else if (id == CALL_realloc && (small || large)) {
    *(small ? &seen->program : &seen->by_handler) += 1;
    seen->strange += event->released != seen->last[large];
    seen->last[large] = event->acquired;
  } else if (id == CALL_free) {
    bool mine = event->released == seen->last[0];
    if (mine || event->released == seen->last[1])
      *(mine ? &seen->program : &seen->by_handler) += 1;
  }
}

static int storm_test(void) {
  record_self_on_bump();
  storm_calls = shared_counts();
  struct storm_seen seen = {0};
  struct recorded recorded = read_trace("t.tape", check_event, &seen);
  unsigned long missing =
      storm_calls[0] + storm_calls[1] - seen.program - seen.by_handler; /* a lost object's release is not known */
  CHECK(storm_calls[1] > HANDLER_CALLS, "only %lu calls in handlers", storm_calls[1]);
  CHECK(recorded.dropped <= missing && missing <= 2 * recorded.dropped && seen.strange <= recorded.dropped,
        "%lu of %lu and %lu calls are missing, %lu dropped, %lu reallocs of other objects", missing, storm_calls[0],
        storm_calls[1], recorded.dropped, seen.strange);
  return 0;
}

const struct claim claims[] = {
    {"handler_at_any_instruction_loses_no_call", handler_test, handler_host, STEPS},
    {"handler_at_any_instruction_of_another_allocator_loses_no_call", handler_other_allocator_test, handler_host,
     STEPS},
    {"interrupted_calls_keep_their_slots", slots_test, slots_host, STEPS},
    {"longjmp_out_of_a_handler_ends_no_recording", longjmp_test, longjmp_host, ANYWHERE},
    {"handler_keeps_96_records_beside_one_that_is_being_written", side_test, side_host, STEPS},
    {"sigkill_at_any_instruction_loses_no_call", anywhere_test, anywhere_host, STEPS},
    {"signal_handler_that_allocates_corrupts_no_record", storm_test, storm_host, ANYWHERE},
    {.name = NULL},
};
