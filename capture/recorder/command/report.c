/* SPDX-License-Identifier: MIT */
#include "capture/recorder/command/report.h"

#include "capture/recorder/command/describe.h"
#include "core/base/text.h"
#include "core/base/vector.h"
#include "core/command/diagnostics.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 4 * 64, LINES = 6, TREE_LINES = 24, NAMES_SHOWN = 5, INDENT = 2, STARTER_CALLS = 10000 };

/* A process image, with all its files if they rotate. */
struct image {
  int pid, parent_pid;
  uint32_t number; /* in the order in which images began */
  int32_t parent;  /* index; -1: none */
  uint32_t files, threads;
  uint64_t events, dropped, skipped, missing, file_bytes, accesses, switches;
  double peak_live_bytes, peak_memory_bytes;
  bool peak_is_exact, in_bursts, calls_lost, clockless;
  bool failed;  /* its recording lacks something: the error has been printed */
  bool small;   /* to lose its file */
  bool deleted; /* its file */
  bool shown;   /* in the tree */
  char name[NAME_BYTES], end[12];
  const char *cut_why;
  char *path; /* of its last file */
};

static struct {
  VECTOR(struct image) images;
  uint32_t lost; /* not added, for lack of memory: their files stay */
  struct report_written written;
} all;

/* Files that can't be written for the same reason as one before, whose error was printed: a full disk beside many short
   processes is one line, and one at the end. */
struct unwritten {
  char reason[128];
  uint32_t files;
  uint64_t missing;
};

static struct unwritten not_begun, not_ended;

/* Counts the error if it repeats the reason of an earlier one. */
static bool repeats(struct unwritten *earlier, const struct error *error, uint64_t missing) {
  const char *reason = strstr(error->text, ": can't write: ");
  if (!reason)
    return false;
  if (strcmp(reason, earlier->reason) != 0) {
    snprintf(earlier->reason, sizeof earlier->reason, "%s", reason);
    return false;
  }
  earlier->files++;
  earlier->missing += missing;
  return true;
}

void report_error(const struct error *error) {
  if (!repeats(&not_begun, error, 0))
    diagnostics_error(RECORD, "%s", error->text);
}

struct report_written report_written(void) {
  return all.written;
}

/* The image's entry, a new one for its first file; NULL: no memory. */
static struct image *entry_of(const struct process_summary *process) {
  for (uint32_t i = all.images.count; i-- > 0;)
    if (all.images.at[i].number == process->number)
      return &all.images.at[i];
  struct image *image = vector_add(&all.images);
  if (!image)
    return NULL;
  *image =
      (struct image){.pid = process->pid, .parent_pid = process->parent_pid, .number = process->number, .parent = -1};
  escape_controls(image->name, sizeof image->name, process->name);
  return image;
}

static void note_image(const struct process_summary *process, bool failed) {
  const struct process_totals *totals = process->totals;
  const struct trace_totals *t = &totals->totals;
  char *path = strdup(process->path);
  struct image *image = path ? entry_of(process) : NULL;
  if (!image) {
    all.lost++;
    free(path);
    return;
  }
  free(image->path);
  image->path = path;
  image->files++;
  image->events += t->events;
  image->dropped += t->dropped - totals->skipped;
  image->skipped += totals->skipped;
  image->clockless = totals->clockless;
  image->missing += t->lost;
  image->file_bytes += t->file_bytes;
  image->accesses += t->accesses.objects + t->accesses.other;
  image->switches += t->accesses.switches;
  image->in_bursts = t->accesses.in_bursts;
  image->threads = t->threads > image->threads ? t->threads : image->threads;
  image->peak_live_bytes = totals->peak_live_bytes;
  image->peak_is_exact = totals->peak_is_exact;
  image->peak_memory_bytes = (double)totals->peak_memory_bytes;
  image->failed |= failed;
  image->calls_lost |= totals->calls_lost || totals->unpaired;
  image->cut_why = totals->cut_why;
  snprintf(image->end, sizeof image->end, "%s", process->end);
}

/* Valgrind's tool counted no data access though calls were made: a replay would take the program's accesses for free.
   Not where recording them ended early, of which there is a warning. */
static bool lacks_accesses(const struct process_totals *totals) {
  const struct trace_access_totals *accesses = &totals->totals.accesses;
  bool counted = accesses->known[ACCESS_TOTAL_PROGRAM_ACCESSES] ? accesses->counted[ACCESS_TOTAL_PROGRAM_ACCESSES] > 0
                                                                : accesses->calls > 0;
  return accesses->recorded && !accesses->in_bursts && totals->totals.events > 0 && !totals->side_over &&
         accesses->objects + accesses->other + accesses->lost == 0 && !counted;
}

void report_process(const struct process_summary *process, const struct error *error) {
  const struct process_totals *totals = process->totals;
  const struct trace_totals *t = &totals->totals;
  all.written.files++;
  all.written.bursts += (t->accesses.switches + 1) / 2;
  note_image(process, error->text[0] || totals->broken || lacks_accesses(totals));
  if (error->text[0]) {
    if (repeats(&not_ended, error, t->lost))
      return;
    diagnostics_error(RECORD,
                      "%s; the trace of process %d ends early: %llu events are in it, at least %llu more are not",
                      error->text, process->pid, (unsigned long long)t->events, (unsigned long long)t->lost);
    return;
  }
  if (totals->broken)
    diagnostics_error(RECORD, "%s: %llu records are invalid: process %d has overwritten its rings", process->path,
                      (unsigned long long)totals->broken, process->pid);
  if (totals->side_over)
    diagnostics_warning(RECORD, "%s: data accesses end before the events: %s", process->path, totals->side_over);
  if (lacks_accesses(totals)) {
    all.written.without_accesses++;
    diagnostics_error(RECORD,
                      "%s: 0 data accesses for %llu calls: heaptape's Valgrind tool took all code for the allocator's "
                      "or got no stream; record without --accesses",
                      process->path, (unsigned long long)t->events);
  }
  if (totals->calls_lost)
    diagnostics_warning(RECORD, "%s: " PROCESS_CALLS_LOST, process->path);
  if (totals->unpaired) {
    char number[TEXT_NUMBER_BYTES];
    diagnostics_warning(RECORD,
                        "%s: at least %s missing%s: objects were released that were not handed out, or handed out "
                        "twice; heaptape check counts all",
                        process->path, text_counted(number, totals->unpaired, "call"),
                        totals->linked ? ", as " PROCESS_CALLS_ROUND : "");
  }
  if (totals->stacks_lost)
    diagnostics_warning(RECORD, "%s: %llu call stacks could not be taken; their events are in the trace without one",
                        process->path, (unsigned long long)totals->stacks_lost);
}

/* --- which files stay --- */

static int by_number(const void *left, const void *right) {
  const struct image *a = left, *b = right;
  return COMPARE(a->number, b->number);
}

static int by_events(const void *left, const void *right) {
  const struct image *a = left, *b = right;
  return a->events == b->events ? COMPARE(a->number, b->number) : COMPARE(b->events, a->events);
}

/* All calls of which the recorder knows. */
static uint64_t calls_of(const struct image *image) {
  return image->events + image->dropped + image->skipped + image->missing;
}

static void fail_rename(const char *from, const char *to) {
  diagnostics_error(RECORD, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
}

static void set_path(struct image *image, const char *path) {
  char *copy = strdup(path);
  if (!copy)
    return; /* what is printed has the old name */
  free(image->path);
  image->path = copy;
}

/* The first of the images, the busiest one, gets the requested name. The image that has it (NULL: none has) gets one by
   its PID, or loses its file if it is small. Not where that name is a device's or a pipe's. */
static void name_busiest(const struct collector_settings *settings, struct image *holder) {
  char path[PATH_MAX], resolved[PATH_MAX], further[PATH_MAX];
  struct stat status;
  describe_first_path(settings, path, sizeof path);
  if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode) && realpath(path, resolved))
    snprintf(path, sizeof path, "%s", resolved); /* the link stays */
  bool exists = stat(path, &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    if (holder)
      holder->small = false; /* nothing is there to delete */
    return;
  }
  if (holder && !holder->small && exists) {
    describe_further_path(settings, holder->pid, further, sizeof further);
    if (rename(path, further) != 0) {
      fail_rename(path, further);
      unlink(further);
      return;
    }
    set_path(holder, further);
  }
  if (rename(all.images.at[0].path, path) != 0) {
    fail_rename(all.images.at[0].path, path);
    return;
  }
  describe_first_path(settings, path, sizeof path);
  set_path(&all.images.at[0], path);
  if (holder && holder->small)
    holder->deleted = true;
}

/* Marks images with less than 1 % of all calls, except for holder. */
static void mark_small(const struct image *holder) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < all.images.count; i++)
    total += calls_of(&all.images.at[i]);
  for (uint32_t i = 1; i < all.images.count; i++) {
    struct image *image = &all.images.at[i];
    image->small = 100 * calls_of(image) < total && !image->failed && image != holder;
  }
}

static void delete_small(void) {
  for (uint32_t i = 1; i < all.images.count; i++) {
    struct image *image = &all.images.at[i];
    if (!image->small || image->deleted)
      continue;
    image->deleted = unlink(image->path) == 0;
    if (!image->deleted)
      diagnostics_error(RECORD, "%s: cannot be deleted: %s", image->path, strerror(errno));
  }
}

/* Did it only start other programs, by what is known of it? */
static bool is_starter(const struct image *image) {
  static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", "busybox"};
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    if (strcmp(image->name, shells[i]) == 0)
      return image->events < STARTER_CALLS;
  return image->events < (strcmp(image->end, "exec") == 0 ? STARTER_CALLS : FEW_CALLS);
}

/* Should the image be first instead of `first`, which has more calls? Where it has at least half of the most calls, if
   its peak memory is higher: a shell that starts a small program may make a few calls more than the program. Else, if
   `first` and the command itself only start others, and its peak memory is twice as high. */
static bool is_rather_first(const struct image *image, const struct image *first) {
  if (2 * image->events >= all.images.at[0].events)
    return image->peak_memory_bytes > first->peak_memory_bytes;
  const struct image *command = first;
  for (uint32_t i = 0; i < all.images.count; i++)
    if (all.images.at[i].number < command->number)
      command = &all.images.at[i];
  return image->events && is_starter(first) && is_starter(command) &&
         image->peak_memory_bytes > 2 * first->peak_memory_bytes;
}

/* Sorts the images by calls, the one that is to have the requested file first. */
static void sort_images(void) {
  vector_sort(&all.images, by_events);
  uint32_t first = 0;
  for (uint32_t i = 1; i < all.images.count; i++)
    if (is_rather_first(&all.images.at[i], &all.images.at[first]))
      first = i;
  for (; first > 0; first--) {
    struct image before = all.images.at[first - 1];
    all.images.at[first - 1] = all.images.at[first];
    all.images.at[first] = before;
  }
}

/* Sorts the images, and settles their files. */
static void settle_files(const struct collector_settings *settings, bool all_processes) {
  char path[PATH_MAX];
  struct image *holder = NULL;
  sort_images();
  if (settings->rotate_bytes || all.images.count < 2)
    return;
  describe_first_path(settings, path, sizeof path);
  for (uint32_t i = 0; i < all.images.count; i++)
    if (strcmp(all.images.at[i].path, path) == 0)
      holder = &all.images.at[i];
  if (!all_processes)
    mark_small(settings->restorer_pid ? holder : NULL);
  if (!settings->restorer_pid && holder != &all.images.at[0])
    name_busiest(settings, holder);
  delete_small();
}

/* --- what is printed --- */

static void print_line(const struct text_line *line, size_t indent) {
  fprintf(stderr, "%*s", (int)indent, "");
  text_print(stderr, line->text, text_width(STDERR_FILENO), indent, indent + INDENT);
}

static void add_path(struct text_line *line, const char *path) {
  char shown[PATH_MAX];
  text_add(line, "%s", escape_controls(shown, sizeof shown, path));
}

/* As a shell takes it: in quotes where it has to be. */
static void add_quoted(struct text_line *line, const char *path) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-";
  char shown[PATH_MAX];
  escape_controls(shown, sizeof shown, path);
  bool as_it_is = !shown[strspn(shown, plain)];
  const char *quote = as_it_is ? "" : "'";
  text_add(line, "%s", quote);
  for (const char *at = shown; *at; at++)
    if (*at == '\'')
      text_add(line, "'\"'\"'");
    else if (*at == ' ')
      text_add(line, TEXT_JOIN);
    else
      text_add(line, "%c", *at);
  text_add(line, "%s", quote);
}

static void add_bursts(struct text_line *line, const struct image *image) {
  char number[TEXT_NUMBER_BYTES];
  uint64_t bursts = (image->switches + 1) / 2;
  text_add(line, ", %s accesses", text_count(number, image->accesses));
  if (image->in_bursts)
    text_add(line, " in %s%s", text_counted(number, bursts, "burst"),
             image->switches % 2 ? ", the last one up to the end" : "");
}

static void print_image(const struct image *image, bool accesses) {
  struct text_line line = {.used = 0};
  char number[TEXT_NUMBER_BYTES];
  text_add(&line, "heaptape: %s: %s", image->name,
           image->events ? text_counted(number, image->events, "call") : "no call");
  if (image->threads)
    text_add(&line, ", %s", text_counted(number, image->threads, "thread"));
  if (image->peak_is_exact && image->peak_live_bytes > 0) /* an estimate's maximum was 55 % too high: info has it */
    text_add(&line, ", peak live %s", text_size(number, image->peak_live_bytes));
  if (image->events)
    text_add(&line, ", %.2f" TEXT_JOIN "bytes per call", (double)image->file_bytes / (double)image->events);
  if (image->dropped)
    text_add(&line, ", %s dropped", text_count(number, image->dropped));
  if (image->skipped)
    text_add(&line, ", %s not recorded %s", text_count(number, image->skipped),
             image->clockless ? "after the program had forbidden itself the clock" : "in pauses");
  if (accesses)
    add_bursts(&line, image);
  if (image->files > 1)
    text_add(&line, ", %s, the last one", text_counted(number, image->files, "file"));
  text_add(&line, " ->" TEXT_JOIN);
  add_path(&line, image->path);
  if (image->cut_why)
    text_add(&line, "; %s", image->cut_why);
  print_line(&line, 0);
}

/* most: how many images without faults to print. */
static void print_images(const struct collector_settings *settings, uint32_t most) {
  uint32_t shown = 0, more = all.lost;
  uint64_t calls = 0;
  char number[TEXT_NUMBER_BYTES];
  struct text_line line = {.used = 0};
  for (uint32_t i = 0; i < all.images.count; i++) {
    const struct image *image = &all.images.at[i];
    if (image->deleted || image->failed) /* an error has named it */
      continue;
    if (shown < most || image->dropped || image->cut_why) {
      print_image(image, settings->flags & ATTACH_ACCESSES);
      shown++;
    } else {
      more++;
      calls += image->events;
    }
  }
  if (!more || most < LINES)
    return;
  text_add(&line, "heaptape: and %s, ", text_counted(number, more, "smaller recording"));
  text_add(&line, "%s", text_counted(number, calls, "call"));
  print_line(&line, 0);
}

/* Adds the image's name to a list of at most NAMES_SHOWN different ones. Returns the number of names. */
static uint32_t add_name(const char **names, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0)
      return count;
  if (count < NAMES_SHOWN)
    names[count] = name;
  return count < NAMES_SHOWN ? count + 1 : count;
}

static void print_deleted(void) {
  const char *names[NAMES_SHOWN];
  uint32_t images = 0, count = 0;
  uint64_t calls = 0;
  char number[TEXT_NUMBER_BYTES];
  struct text_line line = {.used = 0};
  for (uint32_t i = 0; i < all.images.count; i++) {
    const struct image *image = &all.images.at[i];
    if (!image->deleted)
      continue;
    images++;
    calls += image->events;
    count = add_name(names, count, image->name);
  }
  if (!images)
    return;
  text_add(&line, "heaptape: deleted: %s of small processes", text_counted(number, images, "recording"));
  text_add(&line, " (%s):", text_counted(number, calls, "call"));
  for (uint32_t i = 0; i < count; i++)
    text_add(&line, "%s %s", i ? "," : "", names[i]);
  text_add(&line, "%s; --all-processes keeps them", count == NAMES_SHOWN ? ", …" : "");
  print_line(&line, 0);
}

/* What to know of the busiest recording, and what to type next. */
static void print_next(void) {
  const struct image *image = &all.images.at[0], *largest = image;
  char unexplained[MEMORY_UNEXPLAINED_BYTES];
  struct text_line line = {.used = 0};
  if (image->failed)
    return;
  for (uint32_t i = 1; i < all.images.count; i++)
    if (!all.images.at[i].deleted && all.images.at[i].peak_memory_bytes > largest->peak_memory_bytes)
      largest = &all.images.at[i];
  const char *python = getenv("PYTHONMALLOC"); /* the hint is for those who have not set it */
  memory_unexplained_text(unexplained, largest->peak_live_bytes, largest->peak_memory_bytes,
                          python ? "" : largest->name);
  if (image->events && image->events < FEW_CALLS)
    text_add(&line, "heaptape: %s: so few calls that start-up decides their instructions and time.", image->name);
  if (line.used)
    print_line(&line, 0);
  line.used = 0;
  if (unexplained[0] && largest->events && !largest->skipped && !largest->dropped && !largest->calls_lost)
    text_add(&line, "heaptape: %s: %s", largest->name, unexplained);
  if (line.used)
    print_line(&line, 0);
  if (!image->events)
    return;
  line.used = 0;
  text_add(&line, "heaptape: next: heaptape" TEXT_JOIN "replay" TEXT_JOIN);
  add_quoted(&line, image->path);
  print_line(&line, 0);
}

/* --- the tree --- */

/* An image that was exec'ed is a child of the image before it. A new process is a child of its parent's image at that
   time, the last one that began before it. */
static void link_images(void) {
  for (uint32_t i = 0; i < all.images.count; i++) {
    struct image *image = &all.images.at[i];
    for (uint32_t k = i; k-- > 0 && image->parent < 0;)
      if (all.images.at[k].pid == image->pid && strcmp(all.images.at[k].end, "exec") == 0)
        image->parent = (int32_t)k;
    for (uint32_t k = i; k-- > 0 && image->parent < 0;)
      if (all.images.at[k].pid == image->parent_pid)
        image->parent = (int32_t)k;
  }
}

/* Marks what is to be shown: the images with most events, and their parents. */
static void choose(void) {
  for (uint32_t shown = 0; shown < TREE_LINES;) {
    struct image *most = NULL;
    for (uint32_t i = 0; i < all.images.count; i++)
      if (!all.images.at[i].shown && (!most || all.images.at[i].events > most->events))
        most = &all.images.at[i];
    if (!most)
      return;
    for (; !most->shown; most = &all.images.at[most->parent]) {
      most->shown = true;
      shown++;
      if (most->parent < 0)
        break;
    }
  }
}

static void print_children(int32_t parent, unsigned depth) {
  enum { DEPTH_SHOWN = 12 };
  unsigned indent = INDENT * (depth < DEPTH_SHOWN ? depth : DEPTH_SHOWN) + INDENT;
  uint32_t hidden = 0;
  uint64_t hidden_calls = 0;
  char number[TEXT_NUMBER_BYTES];
  struct text_line line = {.used = 0};
  for (uint32_t i = 0; i < all.images.count; i++) {
    const struct image *image = &all.images.at[i];
    if (image->parent != parent)
      continue;
    if (!image->shown) {
      hidden++;
      hidden_calls += image->events;
      continue;
    }
    line.used = 0;
    text_add(&line, "%s (%d): %s", image->name, image->pid, text_counted(number, image->events, "call"));
    if (image->dropped)
      text_add(&line, ", %s dropped", text_count(number, image->dropped));
    text_add(&line, "%s%s, ", strcmp(image->end, "exit") == 0 ? "" : ", ",
             strcmp(image->end, "exit") == 0 ? "" : image->end);
    add_path(&line, basename(image->path));
    print_line(&line, indent);
    print_children((int32_t)i, depth + 1);
  }
  if (!hidden)
    return;
  line.used = 0;
  text_add(&line, "... %u more, %s", hidden, text_counted(number, hidden_calls, "call"));
  print_line(&line, indent);
}

static void print_tree(void) {
  if (all.images.count < 2)
    return;
  vector_sort(&all.images, by_number);
  link_images();
  choose();
  print_children(-1, 0);
}

static void print_unwritten(void) {
  if (not_begun.files)
    diagnostics_error(RECORD, "%u further file%s%s: nothing was recorded in them", not_begun.files,
                      not_begun.files == 1 ? "" : "s", not_begun.reason);
  if (not_ended.files)
    diagnostics_error(RECORD, "%u further trace%s%s: at least %llu events are not in them", not_ended.files,
                      not_ended.files == 1 ? "" : "s", not_ended.reason, (unsigned long long)not_ended.missing);
}

void report_conclude(const struct collector_settings *settings, bool all_processes) {
  print_unwritten();
  settle_files(settings, all_processes);
  print_images(settings, diagnostics.quiet ? 0 : all_processes ? 1 : LINES);
  if (!diagnostics.quiet && all.images.count) {
    print_deleted();
    print_next();
    if (all_processes)
      print_tree();
  }
  for (uint32_t i = 0; i < all.images.count; i++)
    free(all.images.at[i].path);
  free(all.images.at);
  all.images.at = NULL;
  all.images.count = all.images.room = 0;
}
