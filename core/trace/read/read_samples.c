/* SPDX-License-Identifier: MIT */
#include "core/base/leb.h"
#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

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

static uint64_t *sample_field(struct trace_sample *sample, int column) {
  uint64_t *const fields[SAMPLE_COLUMNS] = {&sample->stamp,           &sample->rss_anon_bytes, &sample->rss_file_bytes,
                                            &sample->rss_shmem_bytes, &sample->vm_size_bytes,  &sample->vm_hwm_bytes,
                                            &sample->minor_faults,    &sample->major_faults,   &sample->user_ns,
                                            &sample->system_ns};
  return fields[column];
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
      *sample_field(&sample, column) = missing[column] ? TRACE_SAMPLE_MISSING : previous[column];
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
  int (*visit)(void *context, uint64_t address, uint32_t os_pages);
  void *context;
};

static int visit_touched(const struct block *block, const struct block_place *place, struct block_memory *memory,
                         void *context, struct error *error) {
  const struct touched_visit *to = context;
  struct byte_span spans[3];
  uint64_t address = 0, difference, os_pages;
  if (block_read_columns(block, 3, spans, memory, error) != 0)
    return -1;
  for (uint32_t row = 0; row < place->rows; row++) {
    if (!leb_get(&spans[1].at, spans[1].end, &difference) || !leb_get(&spans[2].at, spans[2].end, &os_pages) ||
        os_pages >= UINT32_MAX)
      return error_at(error, block->source->path, block->offset, "a TOUCHED column is too short or has a bad number");
    address += (uint64_t)unzigzag(difference);
    int stop = to->visit(to->context, address, (uint32_t)os_pages);
    if (stop)
      return stop;
  }
  if (spans[1].at != spans[1].end || spans[2].at != spans[2].end)
    return error_at(error, block->source->path, block->offset, "a TOUCHED column is too long");
  return 0;
}

int trace_reader_touched(struct trace_reader *reader, int (*visit)(void *context, uint64_t address, uint32_t os_pages),
                         void *context, struct error *error) {
  struct touched_visit to = {visit, context};
  return reader_visit_blocks(reader, BLOCK_TOUCHED, visit_touched, &to, error);
}
