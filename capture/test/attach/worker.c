/* SPDX-License-Identifier: MIT */
/* A program for the tests of --attach: threads that allocate all the time, in a known sequence, and a main thread that
   executes commands from standard input. worker THREADS PLUGIN [signals]

   Each thread's requests are FIRST_BYTES, FIRST_BYTES + 16 ... LAST_BYTES, and again from the start; each object holds
   its request and is checked before it is freed. Commands, each answered by a line:
     c  10,000 times free(malloc(4242)); and waits until each thread has made 64 objects meanwhile
     l  loads PLUGIN, has it make 1,000 objects of 7,777 bytes and free them, closes it
     f  forks a child that makes 500 objects of 3,131 bytes, and waits for it
     F  starts a child that does that again and again until its parent ends
     s  a storm: 8 times l and f
     v  makes another thread sleep in the kernel for half a second, where it can't be stopped (vfork)
     e  ends the main thread; another one carries out commands from then on
   At the end of the input: exit status 0 if all objects were correct. */
#include "core/test/usual.h"

enum { FIRST_BYTES = 16, LAST_BYTES = 16000, STEP_BYTES = 16, KEPT = 32, THREADS_MAX = 64, AT_ONCE = 64 };

static atomic_bool ends, damaged;
static atomic_uint handled, made[THREADS_MAX];
static int threads;
static const char *plugin;

static void *work(void *its_made) {
  size_t *kept[KEPT] = {0}, bytes = FIRST_BYTES;
  for (unsigned i = 0; !atomic_load(&ends); i++) {
    size_t **place = &kept[i % KEPT];
    size_t expected = *place ? (*place)[0] : 0;
    if (*place && ((*place)[1] != ~expected || ((char *)*place)[expected - 1] != (expected == 16 ? (char)-1 : 'e')))
      atomic_store(&damaged, true);
    free(*place);
    *place = malloc(bytes);
    atomic_fetch_add((atomic_uint *)its_made, 1);
    ((char *)*place)[bytes - 1] = 'e';
    (*place)[0] = bytes;
    (*place)[1] = ~bytes;
    bytes = bytes == LAST_BYTES ? FIRST_BYTES : bytes + STEP_BYTES;
    if (i % AT_ONCE == 0)
      usleep(1000);
  }
  return NULL;
}

/* On a busy machine one thread may sleep while the others work. */
static void wait_for_each(const unsigned before[THREADS_MAX]) {
  for (int i = 0; i < threads; i++)
    while (atomic_load(&made[i]) - before[i] < AT_ONCE)
      usleep(100);
}

static void make(unsigned times, size_t bytes) {
  for (unsigned i = 0; i < times; i++)
    free(malloc(bytes));
}

static void load(void) {
  void *library = dlopen(plugin, RTLD_LAZY | RTLD_LOCAL);
  union {
    void *data;
    void (*code)(unsigned);
  } call = {.data = library ? dlsym(library, "plugin_make") : NULL};
  if (call.data)
    call.code(1000);
  else
    atomic_store(&damaged, true);
  if (library)
    dlclose(library);
}

static void fork_child(void) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) {
    make(500, 3131);
    _exit(7);
  }
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
    atomic_store(&damaged, true);
}

static void start_child(void) {
  if (fork() != 0)
    return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(0);
  close(1);
  for (;;) {
    make(500, 3131);
    usleep(1000);
  }
}

static void *wait_in_vfork(void *unused) {
  if (vfork() == 0) {
    usleep(500000);
    _exit(0);
  }
  return unused;
}

static void obey(char command) {
  pthread_t other;
  if (command == 'c') {
    unsigned before[THREADS_MAX];
    for (int i = 0; i < threads; i++)
      before[i] = atomic_load(&made[i]);
    make(10000, 4242);
    wait_for_each(before);
  }
  if (command == 'l')
    load();
  if (command == 'f')
    fork_child();
  if (command == 'F')
    start_child();
  if (command == 'v' && pthread_create(&other, NULL, wait_in_vfork, NULL) == 0)
    pthread_detach(other);
  for (int i = 0; command == 's' && i < 8; i++) {
    load();
    fork_child();
  }
}

static void *go_on(void *unused);

/* Carries out commands to the end of the input. Returns the process's exit status. */
static int obey_all(void) {
  for (char command; read(0, &command, 1) == 1;) {
    pthread_t other;
    if (command == '\n')
      continue;
    if (command == 'e' && pthread_create(&other, NULL, go_on, NULL) == 0)
      pthread_exit(NULL);
    obey(command);
    if (write(1, "\n", 1) != 1)
      return 2;
  }
  return 0;
}

static void *go_on(void *unused) {
  if (write(1, "\n", 1) != 1)
    exit(2);
  exit(obey_all() || atomic_load(&damaged));
  return unused;
}

static void count_signal(int signal) {
  (void)signal;
  atomic_fetch_add(&handled, 1);
}

int main(int count, char **argument) {
  pthread_t thread[THREADS_MAX];
  threads = atoi(argument[1]);
  plugin = argument[2];
  if (count > 3) {
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 2000}, {0, 2000}}, NULL);
  }
  for (int i = 0; i < threads; i++)
    pthread_create(&thread[i], NULL, work, &made[i]);
  int status = obey_all();
  atomic_store(&ends, true);
  for (int i = 0; i < threads; i++)
    pthread_join(thread[i], NULL);
  return status || atomic_load(&damaged) || (count > 3 && !atomic_load(&handled));
}
