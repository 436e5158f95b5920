/* SPDX-License-Identifier: MIT */
/* Rates of the importers: bench_import [EVENTS [FORMAT]]. Writes a recording of EVENTS events in each format, imports
   it in a separate process, and prints a line for each: format, events per second of CPU, bytes per event of the
   recording, peak RSS of the import in bytes. LTTng's is the text that babeltrace2 prints, without babeltrace2's own
   time. */
#include "convert/formats/formats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIVE_LIMIT = 100000, SIZE_CLASSES = 64, THREADS = 4, RUN = 64 };

/* A step of the synthetic program: half of the calls are frees, three quarters of the others are malloc. */
struct call {
  uint64_t number, address, size_bytes, old_address;
  uint32_t object; /* small number of the object */
  uint32_t thread;
  enum { MALLOC, FREE, REALLOC } kind;
};

struct object {
  uint64_t address;
  uint32_t number, class;
};

struct generator {
  struct object live[LIVE_LIMIT];
  uint32_t live_count;
  uint64_t free_addresses[SIZE_CLASSES][LIVE_LIMIT / 8];
  uint32_t free_counts[SIZE_CLASSES];
  uint32_t free_numbers[LIVE_LIMIT];
  uint32_t free_number_count, next_number;
  uint64_t next_address, random, calls;
};

static uint64_t next_random(struct generator *generator) {
  generator->random ^= generator->random << 13;
  generator->random ^= generator->random >> 7;
  generator->random ^= generator->random << 17;
  return generator->random;
}

static uint64_t take_address(struct generator *generator, uint32_t class) {
  if (generator->free_counts[class])
    return generator->free_addresses[class][--generator->free_counts[class]];
  uint64_t address = generator->next_address;
  generator->next_address += 16 * (class + 2);
  return address;
}

static void give_address(struct generator *generator, uint32_t class, uint64_t address) {
  if (generator->free_counts[class] < LIVE_LIMIT / 8)
    generator->free_addresses[class][generator->free_counts[class]++] = address;
}

static struct call next_call(struct generator *generator) {
  uint64_t random = next_random(generator);
  struct call call = {.number = ++generator->calls, .thread = (uint32_t)(generator->calls / RUN % THREADS)};
  uint32_t class = (uint32_t)(random >> 32) % SIZE_CLASSES;
  call.size_bytes = 16 * class + 8 + random % 16;
  if (generator->live_count && (generator->live_count == LIVE_LIMIT || random % 100 < 49)) {
    uint32_t near = generator->live_count < 64 ? generator->live_count : 64;
    uint32_t at = generator->live_count - 1 - (uint32_t)(random >> 20) % near;
    struct object *victim = &generator->live[at];
    call.object = victim->number;
    if (random % 100 < 3) {
      call.kind = REALLOC;
      call.old_address = victim->address;
      give_address(generator, victim->class, victim->address);
      call.address = victim->address = take_address(generator, class);
      victim->class = class;
      return call;
    }
    call.kind = FREE;
    call.address = victim->address;
    give_address(generator, victim->class, victim->address);
    generator->free_numbers[generator->free_number_count++] = victim->number;
    *victim = generator->live[--generator->live_count];
    return call;
  }
  call.object =
      generator->free_number_count ? generator->free_numbers[--generator->free_number_count] : generator->next_number++;
  call.address = take_address(generator, class);
  generator->live[generator->live_count++] = (struct object){call.address, call.object, class};
  return call;
}

static void put_text(FILE *out, const struct call *call) {
  uint64_t n = call->number * 30, a = call->address, t = call->thread;
  if (call->kind == FREE)
    fprintf(out, "%" PRIu64 " %" PRIu64 " free(0x%" PRIx64 ")\n", n, t, a);
  else if (call->kind == REALLOC)
    fprintf(out, "%" PRIu64 " %" PRIu64 " realloc(0x%" PRIx64 ", %" PRIu64 ") = 0x%" PRIx64 "\n", n, t,
            call->old_address, call->size_bytes, a);
  else
    fprintf(out, "%" PRIu64 " %" PRIu64 " malloc(%" PRIu64 ") = 0x%" PRIx64 "\n", n, t, call->size_bytes, a);
}

static void put_android(FILE *out, const struct call *call) {
  if (call->kind == FREE)
    fprintf(out, "%u: free 0x%" PRIx64 "\n", 1000 + call->thread, call->address);
  else if (call->kind == REALLOC)
    fprintf(out, "%u: realloc 0x%" PRIx64 " 0x%" PRIx64 " %" PRIu64 "\n", 1000 + call->thread, call->address,
            call->old_address, call->size_bytes);
  else
    fprintf(out, "%u: malloc 0x%" PRIx64 " %" PRIu64 "\n", 1000 + call->thread, call->address, call->size_bytes);
}

static void put_heaptrack(FILE *out, const struct call *call) {
  if (call->number == 1)
    fputs("v 10400 3\nt 5000 0\n", out);
  if (call->kind == REALLOC)
    fprintf(out, "- %" PRIx64 "\n", call->old_address);
  if (call->kind == FREE)
    fprintf(out, "- %" PRIx64 "\n", call->address);
  else
    fprintf(out, "+ %" PRIx64 " 1 %" PRIx64 "\n", call->size_bytes, call->address);
}

static void put_mtrace(FILE *out, const struct call *call) {
  static const char where[] = "@ ./program:(main+0x20)[0x1333]";
  if (call->number == 1)
    fputs("= Start\n", out);
  if (call->kind == FREE)
    fprintf(out, "%s - 0x%" PRIx64 "\n", where, call->address);
  else if (call->kind == REALLOC)
    fprintf(out, "%s < 0x%" PRIx64 "\n%s > 0x%" PRIx64 " 0x%" PRIx64 "\n", where, call->old_address, where,
            call->address, call->size_bytes);
  else
    fprintf(out, "%s + 0x%" PRIx64 " 0x%" PRIx64 "\n", where, call->address, call->size_bytes);
}

static void put_rep(FILE *out, const struct call *call) {
  if (call->number == 1)
    fprintf(out, "0\n%d\n%020d\n1\n", LIVE_LIMIT + 1, 0);
  if (call->kind == FREE)
    fprintf(out, "f %u\n", call->object);
  else
    fprintf(out, "%c %u %" PRIu64 "\n", call->kind == REALLOC ? 'r' : 'a', call->object, call->size_bytes);
}

static void put_valgrind(FILE *out, const struct call *call) {
  if (call->kind == FREE)
    fprintf(out, "--28947-- free(0x%" PRIX64 ")\n", call->address);
  else if (call->kind == REALLOC)
    fprintf(out, "--28947-- realloc(0x%" PRIX64 ",%" PRIu64 ") = 0x%" PRIX64 "\n", call->old_address, call->size_bytes,
            call->address);
  else
    fprintf(out, "--28947-- malloc(%" PRIu64 ") = 0x%" PRIX64 "\n", call->size_bytes, call->address);
}

static void put_ltrace(FILE *out, const struct call *call) {
  if (call->kind == FREE)
    fprintf(out, "%u prog->free(0x%" PRIx64 ")                 = <void>\n", 2000 + call->thread, call->address);
  else if (call->kind == REALLOC)
    fprintf(out, "%u prog->realloc(0x%" PRIx64 ", %" PRIu64 ")          = 0x%" PRIx64 "\n", 2000 + call->thread,
            call->old_address, call->size_bytes, call->address);
  else
    fprintf(out, "%u prog->malloc(%" PRIu64 ")                          = 0x%" PRIx64 "\n", 2000 + call->thread,
            call->size_bytes, call->address);
}

static void put_kdump(FILE *out, const struct call *call) {
  if (call->kind == FREE)
    fprintf(out, "  1234 10007%u prog     USER  free(0x%" PRIx64 ")\n", call->thread, call->address);
  else if (call->kind == REALLOC)
    fprintf(out, "  1234 10007%u prog     USER  0x%" PRIx64 " = realloc(0x%" PRIx64 ", %" PRIu64 ")\n", call->thread,
            call->address, call->old_address, call->size_bytes);
  else
    fprintf(out, "  1234 10007%u prog     USER  0x%" PRIx64 " = malloc(%" PRIu64 ")\n", call->thread, call->address,
            call->size_bytes);
}

static void put_memray(FILE *out, const struct call *call) {
  if (call->number == 1)
    fputs("HEADER magic=memray version=13 file_format=ALL_ALLOCATIONS start_time=1000 pid=5 main_tid=1\n", out);
  if (call->number % RUN == 1)
    fprintf(out, "CONTEXT_SWITCH tid=%u\n", call->thread + 1);
  if (call->kind != MALLOC)
    fprintf(out, "ALLOCATION address=0x%" PRIx64 " size=0 allocator=free native_frame_id=0\n",
            call->kind == FREE ? call->address : call->old_address);
  if (call->kind != FREE)
    fprintf(out, "ALLOCATION address=0x%" PRIx64 " size=%" PRIu64 " allocator=%s native_frame_id=7\n", call->address,
            call->size_bytes, call->kind == MALLOC ? "malloc" : "realloc");
}

static void put_lttng(FILE *out, const struct call *call) {
  static const char *const names[] = {"malloc", "free", "realloc"};
  fprintf(out, "[1795241222.%09" PRIu64 "] vm lttng_ust_libc:%s: { cpu_id = 1 }, { vtid = %u, vpid = 29078 }, ",
          call->number % 1000000000, names[call->kind], 29078 + call->thread);
  if (call->kind == FREE)
    fprintf(out, "{ ptr = 0x%" PRIX64 " }\n", call->address);
  else if (call->kind == REALLOC)
    fprintf(out, "{ in_ptr = 0x%" PRIX64 ", size = %" PRIu64 ", ptr = 0x%" PRIX64 " }\n", call->old_address,
            call->size_bytes, call->address);
  else
    fprintf(out, "{ size = %" PRIu64 ", ptr = 0x%" PRIX64 " }\n", call->size_bytes, call->address);
}

static void put_dj(FILE *out, const struct call *call) {
  static const uint32_t types[] = {1, 3, 4};
  struct {
    uint32_t thread, type;
    uint64_t ptr1, ptr2, size, rest[4];
  } record = {.thread = call->thread + 1, .type = types[call->kind], .size = call->kind == FREE ? 0 : call->size_bytes};
  record.ptr1 = call->kind == FREE ? call->address : call->old_address;
  record.ptr2 = call->kind == FREE ? 0 : call->address;
  fwrite(&record, sizeof record, 1, out);
}

static void put_bytehound(FILE *out, const struct call *call) {
  static const uint64_t kinds[] = {1, 2, 3};
  const uint64_t operation[4] = {kinds[call->kind], call->object, call->number / 8,
                                 call->kind == FREE ? 0 : call->size_bytes};
  const uint64_t header[2] = {LIVE_LIMIT + 1, UINT64_MAX};
  if (call->number == 1)
    fwrite(header, sizeof header, 1, out);
  fwrite(operation, sizeof operation, 1, out);
}

static void put_number(FILE *out, uint64_t value) {
  unsigned char bytes[10];
  int count = 0;
  do {
    bytes[count] = (unsigned char)((value & 0x7f) | (count ? 0x80 : 0));
    count++;
  } while (value >>= 7);
  while (count)
    putc(bytes[--count], out);
}

static size_t put_varint(unsigned char *at, unsigned key, uint64_t value) {
  size_t count = 0;
  at[count++] = (unsigned char)key;
  for (; value > 0x7f; value >>= 7)
    at[count++] = (unsigned char)(value | 0x80);
  at[count++] = (unsigned char)value;
  return count;
}

static void put_mallocbench(FILE *out, const struct call *call) {
  static const unsigned char kinds[] = {0x0a, 0x12, 0x1a};
  unsigned char fields[40];
  size_t count = put_varint(fields, 0x08, call->object);
  if (call->kind == REALLOC)
    count += put_varint(fields + count, 0x10, call->object);
  if (call->kind != FREE)
    count += put_varint(fields + count, call->kind == REALLOC ? 0x18 : 0x10, call->size_bytes);
  const unsigned char head[] = {0x0a, (unsigned char)(count + 2), kinds[call->kind], (unsigned char)count};
  fwrite(head, sizeof head, 1, out);
  fwrite(fields, count, 1, out);
}

/* One thread: its stream follows the header of nine bytes. */
static void put_wl(FILE *out, const struct call *call) {
  if (call->number == 1)
    fwrite("\x08\x87\xff\x7f\x09\x00\x0a\x01\x0b\x0b\x01", 11, 1, out);
  putc(call->kind == MALLOC ? 2 : call->kind == FREE ? 5 : 4, out);
  put_number(out, call->object + 1);
  if (call->kind == REALLOC)
    put_number(out, call->object + 1);
  if (call->kind != FREE)
    put_number(out, call->size_bytes);
}

static const struct bench {
  const char *name;
  void (*put)(FILE *out, const struct call *call);
} benches[] = {
    {"text", put_text},
    {"android", put_android},
    {"heaptrack", put_heaptrack},
    {"mtrace", put_mtrace},
    {"rep", put_rep},
    {"valgrind", put_valgrind},
    {"ltrace", put_ltrace},
    {"kdump", put_kdump},
    {"memray", put_memray},
    {"lttng", put_lttng},
    {"dj", put_dj},
    {"wl", put_wl},
    {"bytehound", put_bytehound},
    {"mallocbench", put_mallocbench},
};

static void generate(const struct bench *bench, FILE *out, uint64_t events) {
  struct generator *generator = calloc(1, sizeof *generator);
  if (!generator)
    exit(1);
  generator->random = 88172645463325252u;
  generator->next_address = 0x555500000000;
  for (uint64_t i = 0; i < events; i++) {
    struct call call = next_call(generator);
    bench->put(out, &call);
  }
  free(generator);
  if (bench->put == put_wl)
    putc(1, out);
  if (bench->put == put_rep) {
    rewind(out);
    fprintf(out, "0\n%d\n%020" PRIu64 "\n1\n", LIVE_LIMIT + 1, events);
  }
  fflush(out);
}

/* Imports in a separate process, to measure its peak RSS. */
static int import_apart(const struct bench *bench, const char *in, const char *tape, double *seconds, long *rss_kib) {
  pid_t child = fork();
  if (child == 0) {
    struct error error = {""};
    int result = import_file(format_by_name(bench->name)->import, in, &(struct import_options){0}, tape, &error);
    if (result != 0)
      fprintf(stderr, "bench_import: %s\n", error.text);
    _exit(result != 0);
  }
  int status;
  struct rusage usage;
  if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0)
    return -1;
  /* CPU time: an import is one thread, and the machine may have other work. */
  *seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  *rss_kib = usage.ru_maxrss;
  return 0;
}

int main(int argc, char **argv) {
  uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 3000000;
  const char *only = argc > 2 ? argv[2] : NULL;
  char in[] = "bench-XXXXXX.in", tape[] = "bench-XXXXXX.tape";
  int in_fd = mkstemps(in, 3), tape_fd = mkstemps(tape, 5);
  int result = in_fd >= 0 && tape_fd >= 0 ? 0 : 1;
  for (size_t i = 0; result == 0 && i < sizeof benches / sizeof *benches; i++) {
    const struct bench *bench = &benches[i];
    double best = 1e9, seconds;
    long rss_kib = 0;
    struct stat status;
    if (only && strcmp(only, bench->name) != 0)
      continue;
    FILE *out = fopen(in, "w+");
    if (!out)
      break;
    generate(bench, out, events);
    fclose(out);
    for (int run = 0; run < 3 && result == 0; run++) {
      result = import_apart(bench, in, tape, &seconds, &rss_kib);
      best = seconds < best ? seconds : best;
    }
    if (result == 0 && stat(in, &status) == 0)
      printf("%s %.0f %.1f %ld\n", bench->name, (double)events / best, (double)status.st_size / (double)events,
             rss_kib * 1024);
    fflush(stdout);
  }
  unlink(in);
  unlink(tape);
  return result == 0 ? 0 : 1;
}
