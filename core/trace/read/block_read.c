/* SPDX-License-Identifier: MIT */
#include "core/base/leb.h"
#include "core/base/os.h"
#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

/* Reads and checks header and directory at offset. limit: the file's end. Returns 1, 0 if the file ends before the
   block does (truncated), or -1 with error. */
int block_read_head(const struct block_source *source, uint64_t offset, struct block *block, struct error *error) {
  const char *path = source->path;
  block->source = source;
  block->offset = offset;
  struct block_header *header = &block->header;
  uint64_t left = source->file_bytes - offset;
  if (left < sizeof *header)
    return 0;
  if (os_pread_all(source->fd, header, sizeof *header, offset) != 0)
    return error_errno(error, path, "can't read");
  if (memcmp(header->magic, TRACE_BLOCK_MAGIC, sizeof header->magic) != 0)
    return error_at(error, path, offset, "no block starts here (bad magic)");
  size_t directory_bytes = header->columns * sizeof *block->directory;
  if (header->columns > TRACE_MAX_COLUMNS || header->payload_bytes > TRACE_MAX_PAYLOAD_BYTES ||
      header->payload_bytes < directory_bytes)
    return error_at(error, path, offset, "impossible block header");
  if (left - sizeof *header < directory_bytes)
    return 0;
  if (os_pread_all(source->fd, block->directory, directory_bytes, offset + sizeof *header) != 0)
    return error_errno(error, path, "can't read");
  uLong crc = crc32(0, (const Bytef *)header, offsetof(struct block_header, crc32));
  crc = crc32(crc, (const Bytef *)block->directory, (uInt)directory_bytes);
  if (crc != header->crc32)
    return error_at(error, path, offset, "block header fails its checksum");
  if (left - sizeof *header < header->payload_bytes)
    return 0;
  uint64_t stored = directory_bytes;
  for (int i = 0; i < header->columns; i++)
    stored += block->directory[i].stored_bytes;
  if (stored != header->payload_bytes)
    return error_at(error, path, offset, "columns do not add up to the block");
  if (header->rows > TRACE_MAX_ROWS || header->thread >= TRACE_MAX_THREADS || header->steps > 2 * header->rows)
    return error_at(error, path, offset, "impossible block header");
  return 1;
}

/* Columns that mean nothing, below the highest known id. */
static bool is_reserved(const struct block_header *header, uint8_t id) {
  return id == 0 || (header->type == BLOCK_EVENTS && (id == 5 || id == 16)) ||
         (header->type == BLOCK_ACCESSES && (id == 5 || id == 7));
}

/* Bytes that a column may have after decompression, FORMAT.md section 3. */
static uint64_t column_limit(const struct block_header *header, uint8_t id) {
  if (header->type == BLOCK_INFO)
    return TRACE_MAX_INFO_BYTES;
  if (header->type != BLOCK_EVENTS && header->type != BLOCK_ACCESSES && header->type != BLOCK_BURSTS)
    return TRACE_MAX_OTHER_COLUMN_BYTES;
  uint64_t limit = 10 * (uint64_t)header->rows + 64;
  if (header->type != BLOCK_EVENTS)
    return limit;
  if (id == COLUMN_ROWS)
    return 4 * limit;
  return id == COLUMN_STAMP_GAP || id == COLUMN_STAMP_DELTA || id == COLUMN_TOUCHED || id == COLUMN_PARTS ? 2 * limit
                                                                                                          : limit;
}

/* The zstd context is kept for the next column: creating one takes two CPUIDs, which trap in a virtual machine. */
static size_t decompress(void *to, size_t room, const void *from, size_t bytes) {
  static _Atomic(ZSTD_DCtx *) kept;
  ZSTD_DCtx *context = atomic_exchange(&kept, NULL);
  if (!context && !(context = ZSTD_createDCtx()))
    return (size_t)-ZSTD_error_memory_allocation;
  size_t got = ZSTD_decompressDCtx(context, to, room, from, bytes);
  ZSTD_freeDCtx(atomic_exchange(&kept, context));
  return got;
}

int block_read_columns(const struct block *block, int known, struct byte_span *spans, struct block_memory *memory,
                       struct error *error) {
  const struct block_source *source = block->source;
  const struct block_header *header = &block->header;
  struct buffer *stored = &memory->stored, *raw = &memory->raw;
  uint64_t offset = block->offset;
  uint64_t at = offset + sizeof *header + header->columns * sizeof *block->directory;
  size_t starts[TRACE_MAX_COLUMNS] = {0}, sizes[TRACE_MAX_COLUMNS] = {0};
  bool seen[TRACE_MAX_COLUMNS] = {false};
  raw->used = 0;
  for (int i = 0; i < header->columns; i++) {
    const struct column_entry *entry = &block->directory[i];
    uint64_t column_offset = at;
    at += entry->stored_bytes;
    if (entry->id >= known || is_reserved(header, entry->id) || entry->encoding != ENCODING_ZSTD) {
      if (entry->flags & COLUMN_CRITICAL)
        return error_at(error, source->path, offset, "column %d, encoding %d, must be understood and is not known",
                        entry->id, entry->encoding);
      continue;
    }
    if (seen[entry->id])
      return error_at(error, source->path, offset, "column %d occurs twice", entry->id);
    seen[entry->id] = true;
    if (entry->raw_bytes > column_limit(header, entry->id) || entry->shift > 63)
      return error_at(error, source->path, offset, "column %d is larger than its block allows", entry->id);
    stored->used = 0;
    if (!buffer_reserve(stored, entry->stored_bytes + 1) || !buffer_reserve(raw, (size_t)entry->raw_bytes + 1))
      return error_at(error, source->path, offset, "out of memory");
    if (os_pread_all(source->fd, stored->bytes, entry->stored_bytes, column_offset) != 0)
      return error_errno(error, source->path, "can't read");
    if (ZSTD_getFrameContentSize(stored->bytes, entry->stored_bytes) != entry->raw_bytes ||
        ZSTD_findFrameCompressedSize(stored->bytes, entry->stored_bytes) != entry->stored_bytes)
      return error_at(error, source->path, column_offset, "column %d is not one zstd frame of its size", entry->id);
    size_t got = decompress(raw->bytes + raw->used, entry->raw_bytes, stored->bytes, entry->stored_bytes);
    if (ZSTD_isError(got) || got != entry->raw_bytes)
      return error_at(error, source->path, column_offset, "column %d: %s", entry->id,
                      ZSTD_isError(got) ? ZSTD_getErrorName(got) : "wrong size");
    starts[entry->id] = raw->used;
    sizes[entry->id] = got;
    raw->used += got;
  }
  for (int id = 0; id < known; id++)
    spans[id] = (struct byte_span){raw->bytes + starts[id], raw->bytes + starts[id] + sizes[id]};
  return 0;
}

void block_memory_free(struct block_memory *memory) {
  buffer_free(&memory->stored);
  buffer_free(&memory->raw);
}

/* A value takes 3 bytes in the file's column and a hundred in memory, so values are counted before they are parsed. It
   counts separators: there is one before each value. */
static bool json_is_small(const uint8_t *at, const uint8_t *end) {
  uint32_t values = 0;
  bool quoted = false;
  for (; at < end; at++) {
    if (*at == '"')
      quoted = !quoted;
    else if (quoted)
      at += *at == '\\';
    else if ((*at == ',' || *at == ':' || *at == '[' || *at == '{') && ++values > TRACE_MAX_JSON_VALUES)
      return false;
  }
  return true;
}

/* Returns NULL with error if it is not JSON. */
static json_t *parse_json(const struct block *block, const struct byte_span *span, json_error_t *wrong,
                          struct error *error) {
  if (!json_is_small(span->at, span->end)) {
    error_at(error, block->source->path, block->offset, "JSON of more than %d values", TRACE_MAX_JSON_VALUES);
    return NULL;
  }
  return json_loadb((const char *)span->at, (size_t)(span->end - span->at), JSON_REJECT_DUPLICATES, wrong);
}

char *block_read_json(const struct block *block, json_t **object, struct error *error) {
  const char *path = block->source->path;
  struct byte_span spans[3] = {{0}};
  struct block_memory memory = {0};
  char *text = NULL;
  if (block_read_columns(block, 3, spans, &memory, error) == 0) {
    json_error_t wrong = {.text = ""};
    size_t bytes = (size_t)(spans[1].end - spans[1].at);
    *object = parse_json(block, &spans[1], &wrong, error);
    if (!json_is_object(*object))
      error_at(error, path, block->offset, "not a JSON object: %s", *object ? "another type" : wrong.text);
    else if (!(text = strndup((const char *)spans[1].at, bytes)))
      error_at(error, path, block->offset, "out of memory");
    if (!text) {
      json_decref(*object);
      *object = NULL;
    }
  }
  block_memory_free(&memory);
  return text;
}

/* The same for an array of as many values as the block has rows, without its text. NULL with error. */
static json_t *block_read_array(const struct block *block, struct error *error) {
  struct byte_span spans[2] = {{0}};
  struct block_memory memory = {0};
  json_t *array = NULL;
  if (block_read_columns(block, 2, spans, &memory, error) == 0) {
    json_error_t wrong = {.text = ""};
    array = parse_json(block, &spans[1], &wrong, error);
    if (!json_is_array(array) || json_array_size(array) != block->header.rows) {
      error_at(error, block->source->path, block->offset, "not a JSON array of %u values%s%s", block->header.rows,
               array ? "" : ": ", array ? "" : wrong.text);
      json_decref(array);
      array = NULL;
    }
  }
  block_memory_free(&memory);
  return array;
}

struct stack_visit {
  int (*visit)(void *context, const struct trace_stack_node *node);
  void *context;
  uint32_t modules;
};

static int visit_stacks(const struct block *block, const struct block_place *place, struct block_memory *memory,
                        struct stack_visit *to, struct error *error) {
  struct byte_span spans[3];
  struct trace_stack_node node = {.node = place->stack_nodes, .modules = to->modules};
  if (block_read_columns(block, 3, spans, memory, error) != 0)
    return -1;
  for (uint32_t row = 0; row < place->rows; row++) {
    uint64_t up, difference;
    if (!leb_get(&spans[STACK_COLUMN_PARENT].at, spans[STACK_COLUMN_PARENT].end, &up) ||
        !leb_get(&spans[STACK_COLUMN_INSTRUCTION].at, spans[STACK_COLUMN_INSTRUCTION].end, &difference))
      return error_at(error, block->source->path, block->offset, "a STACKS column is too short or has a bad number");
    node.node++;
    if (up == 0 || up > node.node)
      return error_at(error, block->source->path, block->offset, "row %u: a stack's parent is not before its child",
                      row);
    node.parent = node.node - (uint32_t)up;
    node.instruction += (uint64_t)unzigzag(difference);
    int stop = to->visit(to->context, &node);
    if (stop)
      return stop;
  }
  if (spans[1].at != spans[1].end || spans[2].at != spans[2].end)
    return error_at(error, block->source->path, block->offset, "a STACKS column is too long");
  return 0;
}

int trace_reader_stacks(struct trace_reader *reader, int (*visit)(void *context, const struct trace_stack_node *node),
                        void *context, struct error *error) {
  struct stack_visit to = {visit, context, 0};
  struct block_memory memory = {0};
  struct block block;
  int result = 0;
  for (size_t i = 0; i < place_count(&reader->others) && result == 0; i++) {
    const struct block_place *place = place_at(&reader->others, i);
    if (place->type == BLOCK_MODULES)
      to.modules += place->rows;
    if (place->type != BLOCK_STACKS)
      continue;
    result = reader_block(reader, place, &block, error);
    if (result == 0)
      result = visit_stacks(&block, place, &memory, &to, error);
  }
  block_memory_free(&memory);
  return result;
}

/* A whole number of 0 or more. */
static bool get_number(const json_t *row, const char *key, uint64_t *value) {
  const json_t *number = json_object_get(row, key);
  *value = (uint64_t)json_integer_value(number);
  return json_is_integer(number) && *value <= INT64_MAX;
}

/* Text of at most max_bytes; NULL if it is optional and missing. */
static bool get_text(const json_t *row, const char *key, size_t max_bytes, bool optional, const char **text) {
  const json_t *string = json_object_get(row, key);
  *text = json_string_value(string);
  return string ? *text && json_string_length(string) <= max_bytes : optional;
}

/* A visit to the rows of blocks that are arrays. take: returns false if the row is not a `what`; else sets *result to
   the value that the caller's function returned. */
struct row_visit {
  const char *what;
  bool (*take)(const json_t *row, const void *to, int *result);
  const void *to;
};

static int visit_rows(const struct block *block, const struct block_place *place, struct block_memory *memory,
                      void *context, struct error *error) {
  (void)place, (void)memory;
  const struct row_visit *rows = context;
  json_t *array = block_read_array(block, error);
  int result = array ? 0 : -1;
  for (size_t i = 0; i < json_array_size(array) && result == 0; i++)
    if (!rows->take(json_array_get(array, i), rows->to, &result))
      result = error_at(error, block->source->path, block->offset, "row %zu is not %s", i, rows->what);
  json_decref(array);
  return result;
}

struct module_visit {
  int (*visit)(void *context, const struct trace_module *module);
  void *context;
};

static bool take_module(const json_t *row, const void *context, int *result) {
  const struct module_visit *to = context;
  struct trace_module module;
  if (!get_text(row, "name", 4095, false, &module.name) || !get_text(row, "path", 4095, true, &module.path) ||
      !get_text(row, "build_id", (size_t)2 * TRACE_MAX_BUILD_ID_BYTES, true, &module.build_id) ||
      !get_number(row, "start", &module.start) || !get_number(row, "end", &module.end) ||
      !get_number(row, "bias", &module.bias) || module.start >= module.end)
    return false;
  *result = to->visit(to->context, &module);
  return true;
}

int trace_reader_modules(struct trace_reader *reader, int (*visit)(void *context, const struct trace_module *module),
                         void *context, struct error *error) {
  const struct module_visit to = {visit, context};
  struct row_visit rows = {"a module", take_module, &to};
  return reader_visit_blocks(reader, BLOCK_MODULES, visit_rows, &rows, error);
}

struct mark_visit {
  int (*visit)(void *context, const struct trace_mark *mark);
  void *context;
};

static bool take_mark(const json_t *row, const void *context, int *result) {
  const struct mark_visit *to = context;
  struct trace_mark mark;
  uint64_t thread;
  if (!get_number(row, "stamp", &mark.stamp) || !get_number(row, "thread", &thread) || thread >= TRACE_MAX_THREADS ||
      !get_number(row, "events", &mark.events) || !get_text(row, "text", TRACE_MARK_MAX_BYTES, false, &mark.text))
    return false;
  mark.thread = (uint32_t)thread;
  *result = to->visit(to->context, &mark);
  return true;
}

int trace_reader_marks(struct trace_reader *reader, int (*visit)(void *context, const struct trace_mark *mark),
                       void *context, struct error *error) {
  const struct mark_visit to = {visit, context};
  struct row_visit rows = {"a mark", take_mark, &to};
  return reader_visit_blocks(reader, BLOCK_MARKS, visit_rows, &rows, error);
}

struct name_visit {
  int (*visit)(void *context, uint32_t thread, const char *name);
  void *context;
};

static bool take_name(const json_t *row, const void *context, int *result) {
  const struct name_visit *to = context;
  uint64_t thread;
  const char *name;
  if (!get_number(row, "thread", &thread) || thread >= TRACE_MAX_THREADS || !get_text(row, "name", 255, false, &name))
    return false;
  *result = to->visit(to->context, (uint32_t)thread, name);
  return true;
}

int trace_reader_thread_names(struct trace_reader *reader,
                              int (*visit)(void *context, uint32_t thread, const char *name), void *context,
                              struct error *error) {
  const struct name_visit to = {visit, context};
  struct row_visit rows = {"the name of a thread", take_name, &to};
  return reader_visit_blocks(reader, BLOCK_THREADS, visit_rows, &rows, error);
}

size_t reader_first_place(const struct trace_reader *reader, uint32_t thread) {
  size_t low = 0, high = place_count(&reader->places);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (place_at(&reader->places, middle)->thread < thread)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int reader_block(const struct trace_reader *reader, const struct block_place *place, struct block *block,
                 struct error *error) {
  int got = block_read_head(&reader->source, place->offset, block, error);
  return got == 0 ? error_at(error, reader->path, place->offset, "file shrank while it was read") : got < 0 ? -1 : 0;
}

int reader_visit_blocks(const struct trace_reader *reader, enum block_type type, block_visit visit, void *context,
                        struct error *error) {
  struct block_memory memory = {0};
  struct block block;
  int result = 0;
  for (size_t i = 0; i < place_count(&reader->others) && result == 0; i++) {
    const struct block_place *place = place_at(&reader->others, i);
    if (place->type != type)
      continue;
    result = reader_block(reader, place, &block, error);
    if (result == 0)
      result = visit(&block, place, &memory, context, error);
  }
  block_memory_free(&memory);
  return result;
}

struct sample_visit {
  int (*visit)(void *context, const struct trace_sample *sample);
  void *context;
};

static int visit_samples(const struct block *block, const struct block_place *place, struct block_memory *memory,
                         void *context, struct error *error) {
  const struct sample_visit *to = context;
  struct byte_span spans[SAMPLE_COLUMNS + 1];
  uint64_t previous[SAMPLE_COLUMNS] = {0};
  bool missing[SAMPLE_COLUMNS];
  if (block_read_columns(block, SAMPLE_COLUMNS + 1, spans, memory, error) != 0)
    return -1;
  for (int column = 0; column < SAMPLE_COLUMNS; column++)
    missing[column] = spans[column + 1].at == spans[column + 1].end;
  for (uint32_t row = 0; row < place->rows; row++) {
    struct trace_sample sample;
    for (int column = 0; column < SAMPLE_COLUMNS; column++) {
      uint64_t entry = 0;
      if (!missing[column] && !leb_get(&spans[column + 1].at, spans[column + 1].end, &entry))
        return error_at(error, block->source->path, block->offset, "samples column %d is too short", column + 1);
      previous[column] += (uint64_t)unzigzag(entry);
      sample.quantities[column] = missing[column] ? TRACE_SAMPLE_MISSING : previous[column];
    }
    int stop = to->visit(to->context, &sample);
    if (stop)
      return stop;
  }
  for (int column = 0; column < SAMPLE_COLUMNS; column++)
    if (spans[column + 1].at != spans[column + 1].end)
      return error_at(error, block->source->path, block->offset, "samples column %d is too long", column + 1);
  return 0;
}

int trace_reader_samples(struct trace_reader *reader, int (*visit)(void *context, const struct trace_sample *sample),
                         void *context, struct error *error) {
  struct sample_visit to = {visit, context};
  return reader_visit_blocks(reader, BLOCK_SAMPLES, visit_samples, &to, error);
}

struct touched_visit {
  int (*visit)(void *context, uint64_t address, struct touched touched);
  void *context;
};

static int visit_touched(const struct block *block, const struct block_place *place, struct block_memory *memory,
                         void *context, struct error *error) {
  const struct touched_visit *to = context;
  struct byte_span spans[4];
  uint64_t address = 0, difference, os_pages, parts = 0;
  if (block_read_columns(block, 4, spans, memory, error) != 0)
    return -1;
  bool has_parts = spans[3].at != spans[3].end;
  for (uint32_t row = 0; row < place->rows; row++) {
    if (!leb_get(&spans[1].at, spans[1].end, &difference) || !leb_get(&spans[2].at, spans[2].end, &os_pages) ||
        os_pages >= UINT32_MAX)
      return error_at(error, block->source->path, block->offset, "a TOUCHED column is too short or has a bad number");
    if (has_parts && (!leb_get(&spans[3].at, spans[3].end, &parts) || parts > UINT32_MAX ||
                      (uint64_t)__builtin_popcountll(parts) > os_pages))
      return error_at(error, block->source->path, block->offset, "bad number in a TOUCHED column of parts");
    address += (uint64_t)unzigzag(difference);
    int stop = to->visit(to->context, address, (struct touched){(uint32_t)os_pages, (uint32_t)parts});
    if (stop)
      return stop;
  }
  if (spans[1].at != spans[1].end || spans[2].at != spans[2].end || spans[3].at != spans[3].end)
    return error_at(error, block->source->path, block->offset, "a TOUCHED column is too long");
  return 0;
}

int trace_reader_touched(struct trace_reader *reader,
                         int (*visit)(void *context, uint64_t address, struct touched touched), void *context,
                         struct error *error) {
  struct touched_visit to = {visit, context};
  return reader_visit_blocks(reader, BLOCK_TOUCHED, visit_touched, &to, error);
}

typedef int (*gap_visit)(void *context, uint64_t events_before, uint64_t dropped, const char *why);

/* Returns the gap's JSON object; NULL with error. */
static json_t *read_gap(const struct trace_reader *reader, const struct block_place *place, struct error *error) {
  struct block block;
  json_t *gap = NULL;
  if (reader_block(reader, place, &block, error) == 0)
    free(block_read_json(&block, &gap, error));
  return gap;
}

int trace_reader_gaps(struct trace_reader *reader, uint32_t thread, gap_visit visit, void *context,
                      struct error *error) {
  uint64_t events = 0;
  int result = 0;
  size_t count = place_count(&reader->places);
  for (size_t i = reader_first_place(reader, thread); i < count && result == 0; i++) {
    const struct block_place *place = place_at(&reader->places, i);
    if (place->thread != thread)
      break;
    events += place->rows;
    if (place->type != BLOCK_GAP)
      continue;
    json_t *gap = read_gap(reader, place, error);
    if (!gap)
      return -1;
    const char *why = json_string_value(json_object_get(gap, "why"));
    uint64_t dropped = (uint64_t)json_integer_value(json_object_get(gap, "dropped"));
    result = visit(context, events, dropped, why ? why : "");
    json_decref(gap);
  }
  return result;
}
