/* SPDX-License-Identifier: MIT */
/* Any data accesses that are written are read back the same, over several blocks, as recorded and archived; so are
   totals and bursts. Items that the format can't hold are refused and change nothing. A recording without accesses is
   reported as such. */
#include "core/test/generate_accesses.h"
#include "core/test/trace_file.h"

enum { MAX_ITEMS = 60000, LONG_ITEMS = (1 << 20) + 70000 };

static struct access_item *written;

static bool same(const struct access_item *a, const struct access_item *b) {
  return a->kind == b->kind && a->thread == b->thread && a->acquires == b->acquires &&
         a->stack_pointer == b->stack_pointer && a->object == b->object && a->granule == b->granule &&
         a->value == b->value;
}

static struct trace_writer *begin_accesses(bool archive) {
  return begin(&(struct trace_writer_options){.zstd_level = 1, .archive = archive},
               ",\"accesses\":{\"granule_bytes\":16,\"filter_bytes\":4096}");
}

/* Items that no block can hold. */
static void put_bad(struct trace_writer *writer, const struct access_generator *g) {
  const struct access_item bad[] = {
      {.kind = ACCESS_EVENT, .thread = 1 << 24},
      {.kind = ACCESS_OBJECT, .object = g->acquired},
      {.kind = ACCESS_OBJECT, .object = g->acquired - (g->acquired > 0), .granule = 1ll << 59},
      {.kind = ACCESS_OBJECT, .object = g->acquired - (g->acquired > 0), .granule = -(1ll << 59) - 1},
      {.kind = ACCESS_OTHER, .granule = -1},
      {.kind = ACCESS_OTHER, .granule = 1ll << 60},
      {.kind = ACCESS_TOTAL, .total = ACCESS_TOTAL_LIMIT},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(trace_writer_access(writer, &bad[i]) == 1, "bad item %zu is taken", i);
}

/* Checks that the items are those written; closes the reader. */
static void read_back(struct trace_reader *reader, uint64_t seed, int count) {
  struct trace_access_cursor *cursor;
  struct access_item item;
  MUST(trace_access_cursor_open(&cursor, reader, &error));
  for (int i = 0; i < count; i++) {
    CHECK(trace_access_cursor_next(cursor, &item) == 1, "seed %lu item %d: %s", seed, i, error.text);
    CHECK(same(&item, &written[i]), "seed %lu item %d of kind %d differs", seed, i, item.kind);
  }
  CHECK(trace_access_cursor_next(cursor, &item) == 0, "more than was written: %s", error.text);
  trace_access_cursor_close(cursor);
  trace_reader_close(reader);
}

static void round_trip(uint64_t seed, int count, bool archive) {
  struct access_generator g = {.random = seed};
  g.call_every = 2 + (uint32_t)test_below(&g.random, 40);
  g.spread = 1 + (uint32_t)test_below(&g.random, 200);
  uint64_t counts[ACCESS_TOTAL] = {0};
  struct trace_writer *writer = begin_accesses(archive);
  for (int i = 0; i < count; i++) {
    written[i] = generate_access(&g);
    counts[written[i].kind]++;
    CHECK(trace_writer_access(writer, &written[i]) == 0, "seed %lu item %d", seed, i);
    if (test_below(&g.random, 1000) == 0)
      put_bad(writer, &g);
    if (count <= MAX_ITEMS && test_below(&g.random, 5000) == 0) /* a block ends here */
      CHECK(trace_writer_flush(writer) == 0, "flush");
  }
  for (uint32_t total = 0; total < ACCESS_TOTAL_LIMIT; total++)
    if (total != seed % ACCESS_TOTAL_LIMIT)
      CHECK(trace_writer_access(
                writer, &(struct access_item){.kind = ACCESS_TOTAL, .total = total, .value = (seed << 40) + total}) ==
                0,
            "total");
  struct trace_reader *reader = end(writer);
  const struct trace_summary *summary = trace_reader_summary(reader);
  const struct trace_access_totals *totals = &summary->accesses;
  CHECK(totals->recorded && summary->access_filter_bytes == 4096 && summary->access_rows == (uint64_t)count &&
            totals->calls == counts[ACCESS_EVENT] && totals->objects == counts[ACCESS_OBJECT] &&
            totals->other == counts[ACCESS_OTHER] && totals->lost == 0,
        "totals differ");
  for (uint32_t total = 0; total < ACCESS_TOTAL_LIMIT; total++) {
    bool known = total != seed % ACCESS_TOTAL_LIMIT;
    CHECK(totals->known[total] == known && totals->counted[total] == (known ? (seed << 40) + total : 0), "total %u",
          total);
  }
  read_back(reader, seed, count);
}

/* Bursts begin and end anywhere between the rows: several at one row, at a block's begin and end, one that never
   ends. */
static void bursts_round_trip(uint64_t seed, int count) {
  struct access_generator g = {.random = seed, .call_every = 3, .spread = 50};
  struct trace_writer *writer = begin_accesses(false);
  bool in_burst = false;
  uint64_t begun = 0;
  for (int i = 0; i < count; i++) {
    struct access_item item;
    do
      item = test_below(&g.random, 4) ? generate_access(&g)
                                      : (struct access_item){.kind = ACCESS_BURST, .value = !in_burst};
    while (!in_burst && item.kind != ACCESS_BURST && item.kind != ACCESS_EVENT);
    if (item.kind == ACCESS_BURST) {
      CHECK(trace_writer_access(writer, &(struct access_item){.kind = ACCESS_BURST, .value = in_burst}) == 0,
            "no change");
      in_burst = !in_burst;
      begun += in_burst;
    } else if (!in_burst && begun) {
      CHECK(trace_writer_access(writer, &(struct access_item){.kind = ACCESS_OTHER}) == 1, "outside of a burst");
    }
    written[i] = item;
    CHECK(trace_writer_access(writer, &item) == 0, "seed %lu item %d", seed, i);
    if (test_below(&g.random, 50) == 0)
      CHECK(trace_writer_flush(writer) == 0, "flush");
  }
  struct trace_reader *reader = end(writer);
  const struct trace_access_totals *totals = &trace_reader_summary(reader)->accesses;
  CHECK(totals->in_bursts == (totals->switches > 0) && (totals->switches + 1) / 2 == begun, "bursts differ");
  read_back(reader, seed, count);
}

static void test_a_recording_without_an_access(void) {
  struct trace_writer *writer = begin_accesses(false);
  CHECK(trace_writer_accesses_begin(writer) == 0, "begin");
  struct trace_reader *reader = end(writer);
  CHECK(trace_reader_summary(reader)->accesses.recorded && trace_reader_summary(reader)->access_rows == 0, "summary");
  CHECK(strstr(trace_reader_summary(reader)->footer_json, "\"accesses\":{\"calls\":0"), "%s",
        trace_reader_summary(reader)->footer_json);
  trace_reader_close(reader);
}

/* A damaged stream may go any way from the last place. */
static void test_steps_beyond_the_range(void) {
  struct access_coder coder = {0};
  const uint64_t step = ((uint64_t)1 << 61) - 1;
  for (uint64_t count = 1; count < 10; count++) {
    struct access_item item = {0};
    uint8_t bytes[ACCESS_ITEM_BYTES];
    const uint8_t *at = bytes, *end = leb_put(bytes, zigzag((int64_t)step) << 2 | ACCESS_OTHER);
    CHECK(access_get(&coder, &at, end, &item) && (uint64_t)item.granule == count * step, "step %lu", count);
  }
}

int main(void) {
  make_file();
  written = malloc(LONG_ITEMS * sizeof *written);
  CHECK(written, "no memory");
  for (uint64_t seed = 1; seed <= 30; seed++)
    round_trip(seed, 1 + (int)(seed * 7919 % MAX_ITEMS), seed % 4 == 0);
  round_trip(31, LONG_ITEMS, false);
  for (uint64_t seed = 1; seed <= 20; seed++)
    bursts_round_trip(seed, 1 + (int)(seed * 37));
  test_a_recording_without_an_access();
  test_steps_beyond_the_range();
  free(written);
  return 0;
}
