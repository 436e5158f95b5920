/* SPDX-License-Identifier: MIT */
#include "allocators/test/expect_fault.h"
#include "core/test/usual.h"

/* The program states a wrong alignment. */
static void aligned_free_of_an_unaligned_object(void) {
  char *object = allocator_aligned_alloc(4096, 100);
  char *other = allocator_malloc(100);
  allocator_free_aligned_sized((uintptr_t)other % 4096 ? other : object, 4096, 100);
}

/* The program states a wrong size. */
static void sized_free_of_a_smaller_object(void) {
  allocator_free_sized(allocator_malloc(100), 200);
}

/* The misuse that each of our allocators detects. */
static const struct fault_case cases_of_any_heap[] = {
    FAULT(aligned_free_of_an_unaligned_object, "", "the object does not have the given alignment"),
    FAULT(sized_free_of_a_smaller_object, "", "the object is smaller than the given size"),
    {"misaligned_free", "", "m200 f0+8", "not a multiple of 16", NULL},
    {0},
};

enum { OBJECTS = 32 };

/* Volatile, so that the compiler knows nothing of the objects. */
static char *volatile objects[OBJECTS];
static unsigned object_count;

static char *allocate(size_t bytes) {
  char *object = allocator_malloc(bytes);
  if (!object || object_count == OBJECTS)
    exit(3);
  return object;
}

static long number_at(const char **at) {
  char *end;
  long number = strtol(*at, &end, 0);
  if (end == *at)
    exit(4);
  *at = end;
  return number;
}

static char *place_at(const char **at) {
  char *place = objects[number_at(at)];
  if (**at == 'u') {
    place += allocator_malloc_usable_size(place);
    ++*at;
  }
  return **at == '+' || **at == '-' ? place + number_at(at) : place;
}

/* The number behind a ',' or a '='. */
static long operand_at(const char **at) {
  ++*at;
  return number_at(at);
}

static void take_step(const char **at) {
  char what = *(*at)++;
  if (what == 'm' || what == 'g') {
    size_t bytes = (size_t)number_at(at);
    char *object = allocate(bytes);
    if (what == 'g')
      allocate(bytes);
    objects[object_count++] = object;
    return;
  }
  char *place = place_at(at);
  long number = what == 'f' ? 0 : operand_at(at);
  if (what == 'f')
    allocator_free(place);
  else if (what == 'r')
    allocator_realloc(place, (size_t)number);
  else if (what == 'w')
    memset(place, (int)operand_at(at), (size_t)number);
  else if (what == 'a')
    *(size_t *)(void *)place += (size_t)number;
  else if (what == 'x')
    *(size_t *)(void *)place ^= (size_t)number;
  else
    exit(4);
}

static void corrupt(const struct fault_case *one) {
  for (const char *at = one->steps; *at; at += *at == ' ')
    take_step(&at);
  if (one->corrupt)
    one->corrupt();
}

static void become_child(char **arguments, const struct fault_case *one, int error_fd) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  setenv(allocator_variable, one->tunables, 1);
  dup2(error_fd, STDERR_FILENO);
  execl("/proc/self/exe", arguments[0], one->name, (char *)NULL);
  _exit(127);
}

static int expect_fault(char **arguments, const struct fault_case *one) {
  int ends[2], status;
  if (pipe(ends) != 0)
    return 2;
  pid_t child = fork();
  if (child == 0)
    become_child(arguments, one, ends[1]);
  close(ends[1]);
  char output[1024] = "";
  size_t used = 0;
  ssize_t got;
  while (used < sizeof output - 1 && (got = read(ends[0], output + used, sizeof output - 1 - used)) > 0)
    used += (size_t)got;
  output[used] = '\0';
  close(ends[0]);
  waitpid(child, &status, 0);
  char *emulator = strstr(output, "qemu: uncaught target signal"); /* if it runs in an emulator */
  if (emulator)
    *emulator = '\0';
  char *end = strchr(output, '\n');
  size_t name_length = strlen(allocator_name);
  bool named = strncmp(output, allocator_name, name_length) == 0 && strncmp(output + name_length, ": ", 2) == 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && named && end && end[1] == '\0' && strstr(output, one->line))
    return 0;
  fprintf(stderr, "%s: expected abort() after \"%s: ... %s ...\"; wait status %#x, output: %s\n", one->name,
          allocator_name, one->line, status, output);
  return 1;
}

/* Returns how many of the cases failed; runs the case of that name, if one is given. */
static int run(const char *name, char **arguments, const struct fault_case *cases) {
  int failed = 0;
  for (const struct fault_case *one = cases; one->name; one++) {
    if (!name)
      failed += expect_fault(arguments, one) != 0;
    else if (strcmp(one->name, name) == 0)
      corrupt(one);
  }
  return failed;
}

int expect_faults(int argument_count, char **arguments, const struct fault_case *cases) {
  const char *name = argument_count > 1 ? arguments[1] : NULL;
  return run(name, arguments, cases_of_any_heap) + run(name, arguments, cases) > 0;
}
