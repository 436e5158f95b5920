/* SPDX-License-Identifier: MIT */
/* Wherever memory runs out, for one request or from then on, a command of heaptape-convert prints one line and leaves
   no file, or prints and writes what it does with memory. */
int convert_main(int argc, char **argv);
#define main convert_main
#include "convert/commands/convert_main.c"
#undef main

#include "core/test/check.h"
#include "core/test/failing_memory.h"
#include "core/trace/event.h"
#include "core/trace/write/trace_write.h"

enum { EVENTS = 60, EACH = 40, STRIDE = 9, MOST_WORDS = 16 };

/* Shared with the child that runs the command. */
static struct shared {
  _Atomic long left; /* requests until one fails */
  _Atomic bool failed;
  bool once;
} * shared;

static bool fails(void) {
  long left = shared ? shared->left-- : 1;
  bool now = left == 0 || (left < 0 && !shared->once);
  if (now)
    shared->failed = true;
  return now;
}

/* A legal history with all that a trace can hold but data accesses. */
static void write_trace(const char *path) {
  struct error error = {0};
  struct trace_writer *writer;
  struct trace_writer_options options = {.block_events = 50};
  CHECK(trace_writer_open(&writer, path, "{\"clock\":{\"kind\":\"tsc\",\"hz\":1e9}}", &options, &error) == 0);
  CHECK(trace_writer_module(writer, &(struct trace_module){.name = "m", .path = "/m", .start = 1, .end = 99}) == 0);
  CHECK(trace_writer_thread_name(writer, 1, "worker") == 0);
  for (uint64_t i = 0; i < EVENTS; i++) {
    uint64_t stamp = 100 * i + 1, address = 4096 * (i + 1);
    uint32_t stack = trace_writer_stack_node(writer, trace_writer_stack_node(writer, 0, 7), 10 + i % 9);
    struct trace_event acquire = {.call = CALL_malloc, .size_bytes = 20 * i, .acquired = address, .stack = stack};
    struct trace_event release = {.call = CALL_free, .released = address - 4096 * 7};
    acquire.acquire_stamp = acquire.release_stamp = stamp;
    release.acquire_stamp = release.release_stamp = stamp + 50;
    CHECK(trace_writer_event(writer, i % 2, &acquire) == 0);
    CHECK(i < 7 || i % 5 == 1 || trace_writer_event(writer, i % 3 % 2, &release) == 0);
    CHECK(trace_writer_sample(writer, &(struct trace_sample){.stamp = stamp, .rss_anon_bytes = address}) == 0);
  }
  CHECK(trace_writer_mark(writer, &(struct trace_mark){2000, TRACE_MARK_HERE, 0, "middle"}) == 0);
  CHECK(trace_writer_close(writer, "exit", 0, &error) == 0, "%s", error.text);
}

struct outcome {
  int status;
  size_t out_bytes, error_lines, file_bytes;
  char out[1 << 20], file[1 << 20];
};

static size_t take(int fd, char *into, size_t most) {
  size_t got = 0;
  for (ssize_t more; got < most && (more = pread(fd, into + got, most - got, (off_t)got)) > 0;)
    got += (size_t)more;
  close(fd);
  return got;
}

static void run(const char *line, long left, struct outcome *outcome) {
  static char copy[500], errors[1 << 16];
  char *words[MOST_WORDS] = {"heaptape-convert"}, *rest;
  int count = 1, out = memfd_create("out", 0), error = memfd_create("errors", 0);
  strcpy(copy, line);
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    words[count++] = word;
  unlink("out");
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    dup2(out, 1);
    dup2(error, 2);
    shared->failed = false;
    shared->left = left;
    exit(convert_main(count, words));
  }
  CHECK(waitpid(child, &outcome->status, 0) == child);
  outcome->out_bytes = take(out, outcome->out, sizeof outcome->out);
  outcome->error_lines = 0;
  for (size_t i = take(error, errors, sizeof errors); i-- > 0;)
    outcome->error_lines += errors[i] == '\n';
  int file = open("out", O_RDONLY);
  outcome->file_bytes = file < 0 ? 0 : take(file, outcome->file, sizeof outcome->file);
}

/* What a line that begins with ~ writes may lack names, or be compressed less. */
static void starve(const char *line) {
  static struct outcome whole, found;
  long number = 0, errors = 0;
  bool names = line[0] == '~';
  line += names;
  run(line, 1L << 40, &whole);
  CHECK(whole.status == 0, "%s: %d", line, whole.status);
  do {
    run(line, number, &found);
    bool same_file = found.file_bytes == whole.file_bytes && memcmp(found.file, whole.file, found.file_bytes) == 0;
    if (found.status == 0)
      CHECK(names ||
                (same_file && found.out_bytes == whole.out_bytes && memcmp(found.out, whole.out, found.out_bytes) == 0),
            "%s, request %ld: another result", line, number);
    else /* the input may be judged after the file was written */
      CHECK((found.status == 1 << 8 || found.status == 2 << 8) && found.error_lines == 1 &&
                (found.file_bytes == 0 || same_file) && shared->failed,
            "%s, request %ld: status %#x, %zu lines, %zu bytes", line, number, found.status, found.error_lines,
            found.file_bytes);
    errors += found.status != 0;
    number += number < EACH ? 1 : STRIDE;
  } while (shared->failed);
  CHECK(errors > 1 || names, "%s: %ld errors", line, errors);
}

int main(void) {
  static const char *const lines[] = {
      "check --ranges --json in.tape",
      "~info in.tape",
      "profile in.tape",
      "spans --sites 2 in.tape",
      "dump --format jsonl --stacks in.tape",
      "~dump --nodes in.tape",
      "compile in.tape -o out --json",
      "compile in.tape -o out --group frame=m&size=..900=segregate --group site=1&size=901..=late --position 9",
      "~compile in.tape -o other.work --origins out",
      "~convert --to tape in.tape out",
      "~convert --anonymise --to tape in.tape out",
      "~convert --to tape --slice progress=20%..80% --slice size=100..900 in.tape out",
      "~convert --merge --to tape in.tape in.tape out",
      "convert --to wl in.tape out",
      "convert --to mtrace in.tape -",
      "~convert --to tape in.txt out",
      "reduce in.work -o out",
      "~info in.work",
      "dump in.work",
      "check in.work",
  };
  struct outcome *made = calloc(1, sizeof *made);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared->left = 1L << 40;
  write_trace("in.tape");
  run("compile in.tape -o in.work", 1L << 40, made);
  run("convert --to text in.tape in.txt", 1L << 40, made);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    shared->once = i % 2;
    starve(lines[i]);
  }
  return 0;
}
