/* SPDX-License-Identifier: MIT */
/* Writes the origins file beside a workload (docs/formats/ORIGINS.md): which call stack acquired each object, and the
   positions of the marks.

   Invariants: sites are numbered by their first op; a realloc of a live object creates no new site. Memory is O(stack
   nodes + marks + threads). Not thread-safe. */
#include "core/workload/origins.h"
#include "convert/compile/compile.h"
#include "convert/history/trace_info.h"
#include "convert/stacks/site_names.h"
#include "convert/stacks/symbols.h"
#include "core/base/json.h"
#include "core/base/vector.h"
#include "core/command/cli.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Marks at one position keep the order of their stamps. */
static int by_position(const void *left, const void *right) {
  const struct recorded_mark *a = left, *b = right;
  return COMPARE(a->position, b->position) ?: COMPARE(a->stamp, b->stamp) ?: COMPARE(a->thread, b->thread)
         ?: COMPARE(a->events, b->events);
}

enum { BUFFER_BYTES = 1 << 16, NO_NUMBER = UINT32_MAX };

struct written_site {
  uint32_t node;
  uint64_t births;
};

struct origins_writer {
  struct compile_file file; /* its first member: the compiler has a pointer to it */
  bool fetch;               /* debug information may be fetched (convert/stacks/symbols.h) */
  struct trace_reader *reader;
  FILE *out;
  uint64_t ops;
  uint32_t nodes;
  uint32_t *site_of_node; /* 0: none yet */
  VECTOR(struct written_site) sites;
  uint32_t *thread_numbers; /* in the workload, by thread of the trace */
  uint32_t threads;
  struct recorded_marks marks;
};

static int no_memory(const struct origins_writer *writer, struct error *error) {
  return error_set(error, writer->file.output.opened, "out of memory");
}

static int open_file(struct compile_file *file, struct trace_reader *reader, struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  struct origins_writer *writer = (struct origins_writer *)file;
  const char *path = file->output.opened;
  writer->reader = reader;
  writer->nodes = summary->stack_nodes;
  writer->threads = summary->threads;
  writer->site_of_node = calloc(writer->nodes + 1ull, sizeof *writer->site_of_node);
  writer->thread_numbers = malloc((writer->threads + 1ull) * sizeof *writer->thread_numbers);
  struct written_site *none = vector_add(&writer->sites);
  if (!writer->site_of_node || !writer->thread_numbers || !none)
    return no_memory(writer, error);
  *none = (struct written_site){0};
  for (uint32_t thread = 0; thread < writer->threads; thread++)
    writer->thread_numbers[thread] = NO_NUMBER;
  if (recorded_marks_load(&writer->marks, reader, error) != 0)
    return -1;
  const struct origins_header empty = {.zero = 0};
  writer->out = fopen(path, "we");
  if (!writer->out)
    return error_errno(error, path, "can't create");
  setvbuf(writer->out, NULL, _IOFBF, BUFFER_BYTES);
  return fwrite(&empty, sizeof empty, 1, writer->out) == 1 ? 0 : error_errno(error, path, "can't write");
}

static void close_file(struct compile_file *file) {
  struct origins_writer *writer = (struct origins_writer *)file;
  if (writer->out)
    fclose(writer->out);
  recorded_marks_free(&writer->marks);
  free(writer->site_of_node);
  free(writer->sites.at);
  free(writer->thread_numbers);
}

/* The site of the stack that ends at the node; UINT32_MAX: no memory. */
static uint32_t site_of(struct origins_writer *writer, uint32_t node) {
  if (node == 0 || node > writer->nodes)
    return 0;
  if (writer->site_of_node[node] == 0) {
    struct written_site *site = vector_add(&writer->sites);
    if (!site)
      return UINT32_MAX;
    *site = (struct written_site){.node = node};
    writer->site_of_node[node] = (uint32_t)writer->sites.count - 1;
  }
  return writer->site_of_node[node];
}

/* The position of a mark is the number of ops before it. */
static void place_marks(struct origins_writer *writer, uint32_t thread, uint64_t stamp) {
  struct recorded_mark *mark;
  while ((mark = recorded_marks_before(&writer->marks, thread, stamp)))
    mark->position = writer->ops;
}

static int take_op(struct compile_file *file, const struct history_op *op, uint32_t thread, struct error *error) {
  struct origins_writer *writer = (struct origins_writer *)file;
  writer->thread_numbers[op->thread] = thread;
  place_marks(writer, op->thread, op->stamp);
  uint32_t site = ORIGINS_NOTHING_BORN;
  if (op->kind == HISTORY_ACQUIRE) {
    site = site_of(writer, op->event ? op->event->stack : 0);
    if (site == UINT32_MAX)
      return no_memory(writer, error);
    writer->sites.at[site].births++;
  }
  if (op->event && !op->moved)
    recorded_marks_after_event(&writer->marks, op->thread);
  writer->ops++;
  return fwrite(&site, sizeof site, 1, writer->out) == 1
             ? 0
             : error_errno(error, writer->file.output.opened, "can't write");
}

static int take_left_out(struct compile_file *file, const struct merge_step *step) {
  struct origins_writer *writer = (struct origins_writer *)file;
  if (step->is_last)
    recorded_marks_after_event(&writer->marks, step->thread);
  return 0;
}

static json_t *marks_json(const struct origins_writer *writer) {
  json_t *array = json_array();
  for (size_t i = 0; i < writer->marks.list.count; i++) {
    const struct recorded_mark *mark = &writer->marks.list.at[i];
    uint32_t number = mark->thread < writer->threads ? writer->thread_numbers[mark->thread] : NO_NUMBER;
    json_array_append_new(array, json_pack("{sI ss so}", "position", (json_int_t)mark->position, "name", mark->text,
                                           "thread", number == NO_NUMBER ? json_null() : json_integer(number)));
  }
  return array;
}

/* Names of threads by number in the trace; the last name of a thread counts. */
struct thread_names {
  const struct origins_writer *writer;
  json_t *by_number;
};

static int take_thread_name(void *context, uint32_t thread, const char *name) {
  struct thread_names *names = context;
  char key[16];
  if (thread >= names->writer->threads || names->writer->thread_numbers[thread] == NO_NUMBER)
    return 0;
  snprintf(key, sizeof key, "%u", names->writer->thread_numbers[thread]);
  return json_object_set_new(names->by_number, key, json_string(name)) == 0 ? 0 : 1;
}

static json_t *threads_json(struct origins_writer *writer, struct error *error) {
  struct thread_names names = {writer, json_object()};
  int status = trace_reader_thread_names(writer->reader, take_thread_name, &names, error);
  json_t *array = status == 0 ? json_array() : NULL;
  for (uint32_t thread = 0; array && thread < writer->threads; thread++) {
    char key[16];
    snprintf(key, sizeof key, "%u", writer->thread_numbers[thread]);
    json_t *name = json_object_get(names.by_number, key);
    if (name)
      json_array_append_new(array,
                            json_pack("{sI sO}", "thread", (json_int_t)writer->thread_numbers[thread], "name", name));
  }
  json_decref(names.by_number);
  return array;
}

static json_t *lacks_json(const struct origins_writer *writer) {
  json_t *lacks = json_array();
  if (writer->sites.count == 1)
    json_array_append_new(lacks, json_string("stacks"));
  if (writer->marks.list.count == 0)
    json_array_append_new(lacks, json_string("marks"));
  return lacks;
}

static int write_all(struct origins_writer *writer, const void *bytes, size_t count, struct error *error) {
  return fwrite(bytes, 1, count, writer->out) == count ? 0
                                                       : error_errno(error, writer->file.output.opened, "can't write");
}

static int write_marks(struct origins_writer *writer, struct error *error) {
  static const uint32_t filling = 0;
  int status = writer->ops % 2 ? write_all(writer, &filling, sizeof filling, error) : 0;
  for (size_t i = 0; status == 0 && i < writer->marks.list.count; i++)
    status = write_all(writer, &writer->marks.list.at[i].position, sizeof writer->marks.list.at[i].position, error);
  return status;
}

static void add_births(const struct origins_writer *writer, json_t *json) {
  size_t number;
  json_t *site;
  json_array_foreach(json_object_get(json, "sites"), number, site)
    json_set_count(site, "births", writer->sites.at[number].births);
}

/* Makes the table of functions, and puts all names into the JSON. */
static int write_sites(struct origins_writer *writer, json_t *json, uint32_t *functions, struct error *error) {
  struct symbols *symbols = NULL;
  if (writer->sites.count > 1 && symbols_open(&symbols, writer->reader, writer->fetch, error) != 0)
    return -1;
  struct site_names *names = site_names_new(symbols);
  int status = names ? 0 : no_memory(writer, error);
  for (size_t site = 0; status == 0 && site < writer->sites.count; site++) {
    uint32_t function = site_names_add(names, writer->sites.at[site].node);
    status = function == UINT32_MAX ? no_memory(writer, error) : write_all(writer, &function, sizeof function, error);
  }
  if (status == 0 && site_names_json(names, json) != 0)
    status = no_memory(writer, error);
  add_births(writer, json);
  *functions = names ? site_names_functions(names) : 0;
  site_names_free(names);
  symbols_close(symbols);
  return status;
}

static int write_json(struct origins_writer *writer, json_t *json, uint64_t *bytes, struct error *error) {
  char *text = json_dumps(json, JSON_COMPACT);
  if (!text)
    return no_memory(writer, error);
  *bytes = strlen(text);
  int status = write_all(writer, text, *bytes, error);
  free(text);
  return status;
}

static int read_checksum(const char *workload, uint32_t *checksum, struct error *error) {
  FILE *in = fopen(workload, "re");
  int status = in && fseek(in, offsetof(struct workload_header, crc32), SEEK_SET) == 0 &&
                       fread(checksum, sizeof *checksum, 1, in) == 1
                   ? 0
                   : error_errno(error, workload, "can't read");
  if (in)
    fclose(in);
  return status;
}

static int write_header(struct origins_writer *writer, struct origins_header *header, struct error *error) {
  memcpy(header->magic, ORIGINS_MAGIC, sizeof header->magic);
  header->version = ORIGINS_VERSION;
  header->header_bytes = ORIGINS_HEADER_BYTES;
  header->ops = writer->ops;
  header->sites = (uint32_t)writer->sites.count;
  header->marks = (uint32_t)writer->marks.list.count;
  header->file_bytes = origins_marks_offset(writer->ops) + header->marks * sizeof(uint64_t) +
                       header->sites * sizeof(uint32_t) + header->json_bytes;
  header->crc32 = (uint32_t)crc32(0, (const Bytef *)header, offsetof(struct origins_header, crc32));
  if (fseek(writer->out, 0, SEEK_SET) != 0 || write_all(writer, header, sizeof *header, error) != 0 ||
      fflush(writer->out) != 0)
    return error_errno(error, writer->file.output.opened, "can't write");
  return 0;
}

static int write_rest(struct origins_writer *writer, json_t *json, struct origins_header *header, struct error *error) {
  json_t *threads = threads_json(writer, error);
  if (!threads)
    return -1;
  json_object_set_new(json, "threads", threads);
  json_object_set_new(json, "marks", marks_json(writer));
  json_object_set_new(json, "lacks", lacks_json(writer));
  return write_marks(writer, error) != 0 || write_sites(writer, json, &header->functions, error) != 0
             ? -1
             : write_json(writer, json, &header->json_bytes, error);
}

static int finish(struct compile_file *file, const char *workload, struct error *error) {
  struct origins_writer *writer = (struct origins_writer *)file;
  struct origins_header header = {.zero = 0};
  if (read_checksum(workload, &header.workload_crc32, error) != 0)
    return -1;
  place_marks(writer, 0, UINT64_MAX);
  vector_sort(&writer->marks.list, by_position);
  json_t *json = json_object();
  int status = write_rest(writer, json, &header, error);
  json_decref(json);
  return status == 0 ? write_header(writer, &header, error) : -1;
}

/* The first of the options makes it. NULL: no memory. */
static struct origins_writer *writer_of(struct compile_added *added) {
  struct compile_file *file = added->files;
  while (file && file->finish != finish)
    file = file->next;
  if (!file && (file = calloc(1, sizeof(struct origins_writer)))) {
    *file = (struct compile_file){.next = added->files,
                                  .without_path = "compile --debuginfod needs --origins",
                                  .open = open_file,
                                  .op = take_op,
                                  .left_out = take_left_out,
                                  .finish = finish,
                                  .close = close_file};
    added->files = file;
  }
  return (struct origins_writer *)file;
}

static const char *take_origins(void *field, const char *value) {
  struct origins_writer *writer = writer_of(field);
  if (!writer)
    return "out of memory";
  writer->file.path = value;
  return NULL;
}

static const char *take_debuginfod(void *field, const char *value) {
  struct origins_writer *writer = writer_of(field);
  (void)value;
  if (!writer)
    return "out of memory";
  writer->fetch = true;
  return NULL;
}

static const struct cli_option rows[] = {
    {"origins", 0, "OUT.origins", take_origins,
     .help = "write which call stack acquired each object, for the replay pass blame"},
    {"debuginfod", 0, NULL, take_debuginfod,
     .help = "with --origins: missing debug information may be fetched from DEBUGINFOD_URLS"},
    {.name = NULL},
};
CLI_ADD(compile, rows);
