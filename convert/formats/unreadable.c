/* SPDX-License-Identifier: MIT */
/* Files that are taken for recordings but can't be read as such: summaries, which have sums and not calls, and
   containers that byte_source does not unpack. They are recognised by their first bytes, to be refused by name, with
   what to do instead. */
#include "convert/formats/formats.h"

#include <string.h>

#define NOT_CALLS ", not calls: record the program again, with heaptape record"

static const struct {
  size_t offset; /* where the bytes are; ANYWHERE: in the first line */
  const char *bytes;
  size_t count;
  const char *what;
} signatures[] = {
#define ANYWHERE SIZE_MAX
#define AT(offset, bytes, what)                                                                                        \
  { offset, bytes, sizeof bytes - 1, what }
    AT(0,
       "\xfd"
       "7zXZ",
       "packed by xz, which is not read: unpack it first (xz -dk)"),
    AT(0, "BZh", "packed by bzip2, which is not read: unpack it first (bzip2 -dk)"),
    AT(0, "\x04\x22\x4d\x18", "packed by lz4, which is not read: unpack it first (lz4 -dk)"),
    AT(0, "7z\xbc\xaf\x27\x1c", "a 7z archive, which is not read: unpack it first (7z x)"),
    AT(0, "\x1f\x9d", "packed by compress, which is not read: unpack it first (uncompress -k)"),
    AT(257, "ustar", "a tar archive: unpack it (tar -xf) and name one of its files"),
    AT(0, "\xff\xfe", "text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"),
    AT(0, "\xfe\xff", "text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"),
    AT(ANYWHERE, "\"dhatFileVersion\"",
       "DHAT's summary, which has sums of call sites" NOT_CALLS ", or valgrind --trace-malloc=yes"),
    AT(0, "desc: ", "Massif's summary, which has snapshots" NOT_CALLS ", or valgrind --trace-malloc=yes"),
    AT(0, "heap profile: ", "a heap profile of gperftools or Go, which has sums of sampled call sites" NOT_CALLS),
    AT(0, "heap_v2/", "a heap profile of jemalloc, which has sums of sampled call sites" NOT_CALLS),
    AT(0, "MALLOC: ", "statistics of tcmalloc" NOT_CALLS),
    AT(0, "memray", "memray's own file: give what memray parse FILE prints, of a recording without --aggregate"),
    AT(0, "reading file \"", "heaptrack_print's summary: give the file that it was made from, heaptrack.PROGRAM.PID.*"),
};

/* pprof's protobuf begins with its sample types: pairs of small numbers of strings. */
static bool is_pprof(const struct import_sample *start) {
  const unsigned char *bytes = start->bytes;
  return start->count >= 12 && memcmp(bytes, "\x0a\x04\x08", 3) == 0 && bytes[4] == 0x10 && bytes[6] == 0x0a;
}

static bool first_line_holds(const struct import_sample *start, const char *bytes, size_t count) {
  const unsigned char *end = memchr(start->bytes, '\n', start->count);
  return memmem(start->bytes, end ? (size_t)(end - start->bytes) : start->count, bytes, count) != NULL;
}

const char *unreadable_file(const struct import_sample *start) {
  if (is_pprof(start))
    return "a pprof profile, which has sums of call sites" NOT_CALLS;
  for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
    size_t at = signatures[i].offset, count = signatures[i].count;
    if (at == ANYWHERE ? first_line_holds(start, signatures[i].bytes, count)
                       : start->count >= at + count && memcmp(start->bytes + at, signatures[i].bytes, count) == 0)
      return signatures[i].what;
  }
  return NULL;
}
