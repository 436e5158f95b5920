/* SPDX-License-Identifier: MIT */
/* LTTng-UST's lttng_ust_libc:* events, of a program run with LD_PRELOAD=liblttng-ust-libc-wrapper.so.1: a trace
   directory (CTF), which a child process, babeltrace2, reads, or the text that babeltrace2 prints:

     [1795241222.716538600] vm lttng_ust_libc:malloc: { cpu_id = 1 }, { vtid = 78, vpid = 78 }, { size = 942, ptr =
   0x55D0 } [1795241222.716541113] vm lttng_ust_libc:free: { cpu_id = 1 }, { vtid = 78, vpid = 78 }, { ptr = 0x0 }
     ... calloc: { nmemb = 3, size = 65, ptr = 0x55E0 }
     ... realloc: { in_ptr = 0x55E0, size = 2907, ptr = 0x5610 }
     ... memalign: { alignment = 64, size = 47, ptr = 0x5680 }
     ... posix_memalign: { out_ptr = 0x5700, alignment = 128, size = 175, result = 0 }

   become malloc(942) = 0x55d0 of thread 78 and so on, at their times. The contexts vtid and vpid are optional (lttng
   add-context -u -t vtid -t vpid): without vtid there is one thread ("threads" in `lacks`). Of a trace of several
   processes --process chooses one. Without vpid all events are taken as one process's, which the report says; names
   that differ (procname) are refused then, as they may be processes or threads, and --process chooses by vtid. free is
   logged before the call, the others after it; so a realloc's release comes late, and the history repairs this
   ("order": "logged").

   The wrapper (2.13) does not see aligned_alloc, valloc and pvalloc: hence "calls" in `lacks`; without vpid
   "processes" instead, as these calls would excuse what events of several processes contradict.

   A trace whose tracer discarded events is refused, unless --allow-gaps is given; then the number that babeltrace2
   reports becomes a gap. (Record with lttng enable-channel --blocking-timeout=inf and LTTNG_UST_ALLOW_BLOCKING=1.) */
#include "convert/foreign/format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROVIDER "lttng_ust_libc:"

extern char **environ;

enum { DEEPEST_FOLDER = 6 };

struct lttng_import {
  struct import *import;
  uint64_t first_ns;
  bool threads, no_processes; /* no_processes: an event without vpid */
  char name[64];              /* procname of the first event without vpid */
  uint64_t discarded, other_events;
};

/* "[SECONDS.NANOS]" or "[HH:MM:SS.NANOS]", possibly "[YYYY-MM-DD HH:MM:SS.NANOS]": the day does not matter. */
static bool scan_time(const char **at, uint64_t *ns) {
  uint64_t seconds, part, nanos;
  if (!scan_word(at, "["))
    return false;
  const char *space = strpbrk(*at, " ]");
  if (space && *space == ' ')
    *at = space + 1;
  if (!scan_decimal(at, &seconds))
    return false;
  for (int i = 0; i < 2 && scan_word(at, ":"); i++) {
    if (!scan_decimal(at, &part) || part > 60 || seconds > UINT64_MAX / 120)
      return false;
    seconds = seconds * 60 + part;
  }
  return scan_word(at, ".") && scan_decimal(at, &nanos) && nanos < 1000000000 && scan_word(at, "] ") &&
         !__builtin_mul_overflow(seconds, 1000000000, ns) && !__builtin_add_overflow(*ns, nanos, ns) &&
         *ns < UINT64_MAX - 1;
}

/* Skips everything before the event's name; NULL if the line is not an event. */
static const char *event_name(const char *line, uint64_t *ns) {
  if (!scan_time(&line, ns))
    return NULL;
  if (*line == '(' && (line = strstr(line, ") ")) != NULL) /* the time since the previous event */
    line += 2;
  return line;
}

static bool recognises(const char *line) {
  uint64_t ns;
  const char *name = event_name(line, &ns);
  return name && strstr(name, PROVIDER) != NULL;
}

/* The numbers of an event's contexts and payload, by field. */
struct fields {
  uint64_t values[9];
  unsigned found;   /* bits by field */
  const char *name; /* procname, with its quotes; NULL: none */
};

enum { VTID, VPID, SIZE, PTR, NMEMB, IN_PTR, OUT_PTR, ALIGNMENT, RESULT, NUMBERS, PROCNAME = NUMBERS, FIELDS };

static const struct {
  const char *name;
  size_t length;
} field_names[FIELDS] = {{"vtid", 4},   {"vpid", 4},    {"size", 4},      {"ptr", 3},    {"nmemb", 5},
                         {"in_ptr", 6}, {"out_ptr", 7}, {"alignment", 9}, {"result", 6}, {"procname", 8}};

static int field_named(const char *name, size_t length) {
  for (int i = 0; i < FIELDS; i++)
    if (field_names[i].length == length && memcmp(field_names[i].name, name, length) == 0)
      return i;
  return FIELDS;
}

/* Skips "text", in which quotes and backslashes are escaped with a backslash. */
static const char *skip_string(const char *at) {
  for (at++; *at && *at != '"'; at++)
    at += *at == '\\' && at[1];
  return at + (*at == '"');
}

/* "{ NAME = VALUE, NAME = VALUE }, { ... }", in one pass. Values that are not numbers are skipped. */
static bool scan_fields(const char *at, struct fields *fields) {
  fields->found = 0;
  fields->name = NULL;
  while (*at) {
    /* Loops, as strspn and strcspn cost more than these few characters. */
    while (*at == ' ' || *at == '{' || *at == '}' || *at == ',')
      at++;
    if (!*at)
      break;
    const char *from = at;
    while (*at && *at != ' ')
      at++;
    int field = field_named(from, (size_t)(at - from));
    if (!scan_word(&at, " = "))
      return false;
    if (*at == '"') {
      fields->name = field == PROCNAME ? at : fields->name;
      at = skip_string(at);
    } else if (field >= NUMBERS)
      at += strcspn(at, ",}");
    else if (scan_hex(&at, &fields->values[field]) || scan_decimal(&at, &fields->values[field]))
      fields->found |= 1u << field;
    else
      return false;
  }
  return true;
}

static bool has(const struct fields *fields, unsigned wanted) {
  return (fields->found & wanted) == wanted;
}

static bool scan_event(const char *name, const struct fields *fields, struct trace_event *event) {
  const uint64_t *value = fields->values;
  const unsigned sized = 1u << SIZE | 1u << PTR;
  if (scan_word(&name, "malloc:") && has(fields, sized))
    *event = event_of_acquire(CALL_malloc, value[PTR], value[SIZE], 0);
  else if (scan_word(&name, "free:") && has(fields, 1u << PTR))
    *event = event_of_release(CALL_free, value[PTR]);
  else if (scan_word(&name, "calloc:") && has(fields, sized | 1u << NMEMB))
    *event = event_of_acquire(CALL_calloc, value[PTR], value[SIZE], value[NMEMB]);
  else if (scan_word(&name, "realloc:") && has(fields, sized | 1u << IN_PTR))
    *event = event_of_realloc(CALL_realloc, value[IN_PTR], value[PTR], value[SIZE], 0);
  else if (scan_word(&name, "memalign:") && has(fields, sized | 1u << ALIGNMENT))
    *event = event_of_acquire(CALL_memalign, value[PTR], value[SIZE], value[ALIGNMENT]);
  else if (scan_word(&name, "posix_memalign:") &&
           has(fields, 1u << OUT_PTR | 1u << ALIGNMENT | 1u << SIZE | 1u << RESULT))
    *event = event_of_acquire(CALL_posix_memalign, value[RESULT] ? 0 : value[OUT_PTR], value[SIZE], value[ALIGNMENT]);
  else
    return false;
  return true;
}

static int begin(struct lttng_import *lttng) {
  bool one_process = !lttng->no_processes || lttng->import->options->has_process;
  const struct import_facts facts = {
      .clock = "nanoseconds",
      .order = "logged",
      .source = "LTTng-UST libc wrapper",
      .pid = lttng->import->pid,
      .lacks = !one_process     ? lttng->threads ? "start processes usable_size" : "start processes threads usable_size"
               : lttng->threads ? "start calls usable_size"
                                : "start calls threads usable_size",
      .note = "aligned_alloc, valloc and pvalloc are not in the recording. The first calls may be those of "
              "LTTng's own library inside the process.",
      .origin_stamp = 1};
  return import_begin(lttng->import, &facts);
}

static uint64_t discarded_by(const char *line) {
  const char *at = strstr(line, "discarded ");
  uint64_t count = 0;
  if (!at || !strstr(line, "racer"))
    return 0;
  at += strlen("discarded ");
  return scan_decimal(&at, &count) && count ? count : 1;
}

/* The process of an event, for import_process. Returns 0, or -1 with error. */
static int process_of(struct lttng_import *lttng, const struct fields *fields, uint64_t *process) {
  *process = fields->values[VPID];
  if (has(fields, 1u << VPID))
    return 0;
  lttng->no_processes = true;
  *process = lttng->import->options->has_process && has(fields, 1u << VTID) ? fields->values[VTID] : 0;
  size_t length = fields->name ? (size_t)(skip_string(fields->name) - fields->name) : 0;
  if (length >= sizeof lttng->name)
    length = sizeof lttng->name - 1;
  if (!length || lttng->import->options->has_process)
    return 0;
  if (!lttng->name[0])
    memcpy(lttng->name, fields->name, length);
  else if (strncmp(lttng->name, fields->name, length) != 0 || lttng->name[length])
    return line_reader_error(lttng->import->lines,
                             "events of %s and %.*s, without vpid: are these processes or threads? Record with lttng "
                             "add-context -u -t vpid -t vtid, or choose one thread with --process VTID",
                             lttng->name, (int)length, fields->name);
  return 0;
}

static int take_line(void *context, const char *line) {
  struct lttng_import *lttng = context;
  struct import *import = lttng->import;
  struct trace_event event;
  uint64_t ns;
  const char *name = event_name(line, &ns);
  if (!name) {
    uint64_t discarded = discarded_by(line);
    if (!discarded)
      return import_bad_line(import, "babeltrace2's text", line);
    lttng->discarded += discarded;
    return 0;
  }
  struct fields fields;
  const char *braces = strchr(name, '{'), *provider = strstr(name, PROVIDER);
  if (!braces || !provider || provider > braces) {
    lttng->other_events++;
    return 0;
  }
  if (!scan_fields(braces, &fields))
    return import_bad_line(import, "LTTng's libc events", line);
  uint64_t process;
  if (process_of(lttng, &fields, &process) != 0)
    return -1;
  int wanted = import_process(import, process);
  if (wanted <= 0)
    return wanted;
  if (!scan_event(provider + strlen(PROVIDER), &fields, &event))
    return import_bad_line(import, "LTTng's libc events", line);
  if (!import->writer) {
    lttng->threads = has(&fields, 1u << VTID);
    lttng->first_ns = ns;
    if (begin(lttng) != 0)
      return -1;
  }
  event.release_stamp = event.acquire_stamp = (ns > lttng->first_ns ? ns - lttng->first_ns : 0) + 1;
  uint64_t vtid = lttng->threads && has(&fields, 1u << VTID) ? fields.values[VTID] : 0;
  return import_event(import, vtid, &event);
}

static void take_complaints(struct lttng_import *lttng, FILE *complaints, char *first, size_t room) {
  char line[256];
  first[0] = '\0';
  rewind(complaints);
  while (fgets(line, sizeof line, complaints)) {
    uint64_t discarded = discarded_by(line);
    lttng->discarded += discarded;
    line[strcspn(line, "\n")] = '\0';
    if (!discarded && !first[0])
      snprintf(first, room, "%.*s", (int)room - 1, line);
  }
}

/* Starts babeltrace2 on the directory; *out is the reading end of its output. */
static int spawn(struct import *import, FILE *complaints, pid_t *child, int *out) {
  char path[4096];
  const char *arguments[] = {
      "babeltrace2", "--clock-seconds", "--no-delta", "--color=never", "--names=context,payload", path, NULL};
  posix_spawn_file_actions_t actions;
  int pipes[2];
  /* babeltrace2 does not support "--": a name that begins with a dash must not be taken for an option. */
  if (snprintf(path, sizeof path, "%s%s", import->path[0] == '-' ? "./" : "", import->path) >= (int)sizeof path)
    return error_set(import->error, import->path, "the name is too long");
  if (pipe2(pipes, O_CLOEXEC) != 0)
    return error_errno(import->error, import->path, "can't start babeltrace2");
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(complaints), STDERR_FILENO);
  int wrong = posix_spawnp(child, arguments[0], &actions, NULL, (char *const *)arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipes[1]);
  if (wrong) {
    close(pipes[0]);
    return error_set(import->error, import->path,
                     "can't start babeltrace2, which reads CTF (Debian's package "
                     "babeltrace2): %s",
                     strerror(wrong));
  }
  *out = pipes[0];
  return 0;
}

static int take_directory(struct lttng_import *lttng) {
  struct import *import = lttng->import;
  struct byte_source *source;
  char complaint[256];
  FILE *complaints = tmpfile();
  pid_t child;
  int out = -1, status = 0;
  if (!complaints)
    return error_errno(import->error, import->path, "can't make a temporary file");
  int result = spawn(import, complaints, &child, &out);
  if (result == 0) {
    result = byte_source_of_fd(&source, out, import->path, import->error);
    if (result == 0)
      result = line_reader_of_source(&import->lines, source);
    if (result == 0)
      result = import_lines(import, take_line, lttng);
    if (result != 0)
      kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
      ;
    take_complaints(lttng, complaints, complaint, sizeof complaint);
    if (result == 0 && status != 0)
      result = error_set(import->error, import->path, "babeltrace2 failed: %s",
                         complaint[0] ? complaint : "it gave no reason");
  }
  fclose(complaints);
  return result;
}

static int finish(struct lttng_import *lttng) {
  struct import *import = lttng->import;
  uint32_t thread;
  if (lttng->discarded && !import->options->allow_gaps)
    return error_set(import->error, import->path,
                     "its tracer discarded %" PRIu64 " events or more: frees of objects never acquired would follow. "
                     "--allow-gaps accepts it nevertheless",
                     lttng->discarded);
  if (!import->writer)
    return error_set(import->error, import->path, "has no " PROVIDER "* event%s",
                     import->options->has_process ? " of that process" : "");
  if (lttng->no_processes && import->options->has_process)
    import_note(import, "the events have no vpid: only thread %" PRIu64 " is taken", import->options->process);
  else if (lttng->no_processes)
    import_note(import, "the events have no vpid: all are taken as one process's");
  if (lttng->other_events)
    import_note(import, "%" PRIu64 " events of other providers left out", lttng->other_events);
  if (!lttng->discarded)
    return 0;
  import_note(import, "%" PRIu64 " events were discarded by the tracer", lttng->discarded);
  /* Their threads are not known. The first event's thread has number 0. */
  thread = 0;
  return trace_writer_gap(import->writer, thread, lttng->discarded, "discarded by LTTng's tracer, thread unknown");
}

static int run(struct import *import) {
  struct lttng_import lttng = {.import = import};
  struct stat status;
  bool directory = strcmp(import->path, "-") != 0 && stat(import->path, &status) == 0 && S_ISDIR(status.st_mode);
  int result = directory ? take_directory(&lttng) : import_lines(import, take_line, &lttng);
  return result == 0 ? finish(&lttng) : -1;
}

static bool holds_ctf(const char *path, int depth) {
  char inner[4096];
  struct dirent *entry;
  bool found = false;
  DIR *folder = depth < DEEPEST_FOLDER ? opendir(path) : NULL;
  while (folder && !found && (entry = readdir(folder)) != NULL) {
    if (strcmp(entry->d_name, "metadata") == 0)
      found = true;
    else if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
             snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < (int)sizeof inner)
      found = holds_ctf(inner, depth + 1);
  }
  if (folder)
    closedir(folder);
  return found;
}

/* Is there a file named metadata in the directory, or a few levels below it? */
static bool recognises_folder(const char *path) {
  return holds_ctf(path, 0);
}

static const struct import_format import_format = {
    .recognises_line = recognises, .recognises_folder = recognises_folder, .run = run};

REGISTER_FORMAT(.name = "lttng",
                .description =
                    "LTTng-UST's libc events, a CTF directory or babeltrace2's text (convert/formats/lttng.c)",
                .import = &import_format);
