/* SPDX-License-Identifier: MIT */
/* Strings built from words: each word is a separate object for a moment, a line grows with each word by exactly the
   word's length, and lines are kept in their documents, the oldest of which is dropped as a whole. Tiny sizes, reallocs
   of a few bytes, two kinds of lifetimes.

   Our own shape, for scripting languages and report writers that concatenate. */
#include "workloads/synthetic/pattern.h"

static uint64_t lines = 50000, longest_words = 12, longest_letters = 14, documents = 8, document_lines = 500;

static object_ref build_line(struct actor *actor, struct rng *rng) {
  uint64_t words = rng_between(rng, 1, longest_words), length = 0;
  object_ref line = 0;
  for (uint64_t i = 0; i < words; i++) {
    uint64_t letters = rng_between(rng, 1, longest_letters);
    object_ref word = do_malloc(actor, letters + 1);
    length += letters + 1;
    line = line ? do_realloc(actor, line, length + 1) : do_malloc(actor, length + 1);
    do_free(actor, word);
  }
  return line;
}

/* A document's lines are consecutive; the unfinished document has fewer. */
static void drop(struct actor *actor, object_ref *document) {
  for (uint64_t i = 0; i < document_lines; i++) {
    if (document[i])
      do_free(actor, document[i]);
    document[i] = 0;
  }
}

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *line = pattern_array(documents * document_lines, sizeof *line);
  for (uint64_t i = 0; i < lines; i++) {
    uint64_t place = i % (documents * document_lines);
    if (place % document_lines == 0)
      drop(actor, &line[place]);
    line[place] = build_line(actor, &rng);
  }
  for (uint64_t document = 0; document < documents; document++)
    drop(actor, &line[document * document_lines]);
}

static const struct option_number options[] = {
    {"lines", &lines, 0, UINT64_MAX, "built"},
    {"words", &longest_words, 1, 1 << 20, "of a line at most"},
    {"letters", &longest_letters, 1, 1 << 20, "of a word at most"},
    {"documents", &documents, 1, 1 << 20, "kept at a time"},
    {"document-lines", &document_lines, 1, 1 << 20, "of a document"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {.summary = "strings built of words, kept in documents", .options = options, .run = run};
