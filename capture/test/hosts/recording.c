/* SPDX-License-Identifier: MIT */
#include "capture/test/hosts/recording.h"

#include "core/trace/read/trace_read.h"

#include <jansson.h>

#if defined(__x86_64__)
enum { SKIPPED = 77, CAN_STEP = 1 };
#else
enum { SKIPPED = 77, CAN_STEP = 0 };
#endif

char **host_arguments;

static char directory[] = "/tmp/heaptape-test-XXXXXX";
static int owner;

static void remove_directory(void) {
  if (getpid() != owner || chdir(directory) != 0)
    return;
  DIR *entries = opendir(".");
  for (struct dirent *entry; entries && (entry = readdir(entries));)
    unlink(entry->d_name);
  if (entries)
    closedir(entries);
  rmdir(directory);
}

static const char *started_as;

const char *claim_name(void) {
  const char *slash = strrchr(started_as, '/');
  return slash ? slash + 1 : started_as;
}

int main(int argc, char **argv) {
  const struct claim *claim = claims;
  started_as = argv[0];
  while (claim->name && strcmp(claim->name, claim_name()) != 0)
    claim++;
  CHECK(claim->name, "%s is no claim", claim_name());
  if (argc > 1) {
    host_arguments = argv + 2;
    return claim->host();
  }
  if ((claim->needs == STEPS && !CAN_STEP) || (claim->needs == OS_PAGES_OF_4_KIB && sysconf(_SC_PAGESIZE) != 4096))
    return puts("holds where instructions can be stepped through (x86-64), or OS pages have 4096 bytes"), SKIPPED;
  owner = getpid();
  CHECK(mkdtemp(directory) && chdir(directory) == 0, "%s", directory);
  atexit(remove_directory);
  return claim->test();
}

/* Drivers are started by their absolute path, under the claim's name. */
const char *self_path(void) {
  CHECK(started_as[0] == '/', "%s", started_as);
  return started_as;
}

/* The test is OUT/test/capture/NAME. */
const char *built_file(const char *name) {
  static char path[PATH_MAX];
  strcpy(path, self_path());
  for (int up = 0; up < 5; up++)
    *strrchr(path, '/') = '\0';
  strcat(path, "/");
  strcat(path, name);
  return path;
}

/* Runs arguments and returns the wait status. out, err: files for its outputs; NULL: the test's own outputs. */
static int run(const char *const *arguments, const char *out, const char *err) {
  int pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid == 0) {
    if ((!out || freopen(out, "w", stdout)) && (!err || freopen(err, "w", stderr)))
      execv(arguments[0], (char *const *)arguments);
    _exit(125);
  }
  int status;
  while (waitpid(pid, &status, 0) < 0)
    CHECK(errno == EINTR, "waitpid");
  return status;
}

static int record(const char *const *options, const char *const *program, const char *out, const char *err) {
  enum { ARGUMENTS_MAX = 40 };
  const char *arguments[ARGUMENTS_MAX + 1] = {built_file("libexec/heaptape-record"), "--all-processes", "-o", "t.tape"};
  int count = 4;
  for (; options && *options && count < ARGUMENTS_MAX; options++)
    arguments[count++] = *options;
  arguments[count++] = "--";
  for (; *program && count < ARGUMENTS_MAX; program++)
    arguments[count++] = *program;
  return run(arguments, out, err);
}

int record_program(const char *const *options, const char *const *program) {
  return record(options, program, NULL, NULL);
}

int record_self(const char *const *options) {
  return record_program(options, (const char *const[]){self_path(), "host", NULL});
}

void record_self_on_bump(void) {
  char preload[PATH_MAX];
  snprintf(preload, sizeof preload, "%s", built_file("lib/test/libbump.so"));
  int status = record_self((const char *const[]){"--preload", preload, NULL});
  CHECK(status == 0, "the host failed: wait status %#x", status);
}

static long footer_number(const json_t *footer, const char *key) {
  const json_t *value = json_object_get(footer, key);
  return value ? (long)json_integer_value(value) : -1;
}

struct recorded read_trace(const char *path,
                           void (*visit)(void *context, uint32_t thread, const struct trace_event *event),
                           void *context) {
  struct recorded recorded = {.nested = -1};
  struct error error = {0};
  struct trace_reader *reader;
  CHECK(trace_reader_open(&reader, path, &error) == 0, "%s", error.text);
  const struct trace_summary *summary = trace_reader_summary(reader);
  for (uint32_t thread = 0; thread < summary->threads; thread++) {
    struct trace_cursor *cursor;
    struct trace_event event;
    CHECK(trace_cursor_open(&cursor, reader, thread, &error) == 0, "%s", error.text);
    int got;
    while ((got = trace_cursor_next(cursor, &event)) == 1) {
      int id = event.call & CALL_ID_MASK;
      recorded.events++;
      recorded.calls[id]++;
      recorded.failed[id] += (event.call & CALL_NULL_OUT) != 0;
      recorded.null_in[id] += (event.call & CALL_NULL_IN) != 0;
      if (visit)
        visit(context, thread, &event);
    }
    CHECK(got == 0, "%s", error.text);
    trace_cursor_close(cursor);
  }
  recorded.dropped = summary->dropped;
  recorded.threads = summary->threads;
  recorded.truncated = summary->truncated;
  json_t *footer = json_loads(summary->footer_json, 0, NULL);
  recorded.nested = footer_number(footer, "nested");
  recorded.in_flight = footer_number(footer, "in_flight");
  const char *end = json_string_value(json_object_get(footer, "end"));
  snprintf(recorded.end, sizeof recorded.end, "%s", end ? end : "");
  json_decref(footer);
  trace_reader_close(reader);
  return recorded;
}

struct events_of {
  int call;
  uint64_t size_bytes, count;
};

static void count_one(void *context, uint32_t thread, const struct trace_event *event) {
  struct events_of *of = context;
  (void)thread;
  of->count += event->size_bytes == of->size_bytes && (of->call < 0 || (event->call & CALL_ID_MASK) == of->call);
}

uint64_t count_events(const char *path, int call, uint64_t size_bytes) {
  struct events_of of = {call, size_bytes, 0};
  read_trace(path, count_one, &of);
  return of.count;
}

void count_pairs(void *pairs, uint32_t thread, const struct trace_event *event) {
  for (struct pairs *pair = pairs; pair->size_bytes && thread == 0; pair++) {
    if (event->size_bytes == pair->size_bytes) {
      pair->acquired++;
      pair->last = event->acquired;
    } else if ((event->call & CALL_ID_MASK) == CALL_free && event->released && event->released == pair->last) {
      pair->released++;
      pair->last = 0;
    }
  }
}

/* The file's lines that are not the recorder's, which begin with its name or continue such a line; to be freed. */
static char *read_lines(const char *path) {
  FILE *file = fopen(path, "r");
  CHECK(file, "%s", path);
  char *text = NULL, line[4096];
  size_t bytes;
  FILE *memory = open_memstream(&text, &bytes);
  while (memory && fgets(line, sizeof line, file))
    if (strncmp(line, "heaptape", 8) != 0 && strncmp(line, "  ", 2) != 0)
      fputs(line, memory);
  fclose(file);
  CHECK(memory && fclose(memory) == 0, "out of memory");
  return text;
}

static void same_text(const char *bare, const char *recorded) {
  char *one = read_lines(bare), *other = read_lines(recorded);
  CHECK(strcmp(one, other) == 0, "bare: %s\nrecorded: %s", one, other);
  free(one);
  free(other);
}

static void print_file(const char *path) {
  char *text = read_lines(path);
  fputs(text, stdout);
  free(text);
}

struct recorded same_as_bare(const char *const *options, int *status) {
  char paths[64][256];
  const char *const program[] = {self_path(), "host", NULL};
  int bare = run(program, "bare.out", "bare.err");
  if (WIFEXITED(bare) && WEXITSTATUS(bare) == SKIPPED) {
    print_file("bare.out");
    exit(SKIPPED);
  }
  int recorded = record(options, program, "recorded.out", "recorded.err");
  int expected = WIFSIGNALED(bare) ? (128 + WTERMSIG(bare)) << 8 : bare;
  if (recorded != expected)
    print_file("recorded.err");
  CHECK(recorded == expected, "wait status %#x recorded, %#x bare", recorded, bare);
  same_text("bare.out", "recorded.out");
  same_text("bare.err", "recorded.err");
  char convert[PATH_MAX];
  snprintf(convert, sizeof convert, "%s", built_file("libexec/heaptape-convert"));
  for (int i = list_traces(paths, 64); i-- > 0;) {
    const char *const check[] = {convert, "check", paths[i], NULL};
    bool legal = run(check, "check.out", "check.err") == 0;
    if (!legal)
      print_file("check.out");
    CHECK(legal, "%s is not a legal history", paths[i]);
  }
  if (status)
    *status = bare;
  return read_trace("t.tape", NULL, NULL);
}

static int is_trace(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".tape") == 0;
}

int list_traces(char paths[][256], int max) {
  struct dirent **entries;
  int found = scandir(".", &entries, is_trace, alphasort), count = 0;
  for (int i = 0; i < found; i++) {
    if (count < max)
      snprintf(paths[count++], 256, "%s", entries[i]->d_name);
    free(entries[i]);
  }
  if (found >= 0)
    free(entries);
  return count;
}

void run_threads(int count, void *(*work)(void *), void *arguments, size_t bytes) {
  pthread_t threads[64];
  CHECK(count <= (int)(sizeof threads / sizeof *threads), "%d threads", count);
  for (int i = 0; i < count; i++)
    CHECK(pthread_create(&threads[i], NULL, work, arguments ? (char *)arguments + (size_t)i * bytes : NULL) == 0,
          "thread %d", i);
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
}

void *shared_counts(void) {
  FILE *file = fopen("calls", "a+");
  CHECK(file && ftruncate(fileno(file), 4096) == 0, "calls");
  void *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  fclose(file);
  return counts;
}
