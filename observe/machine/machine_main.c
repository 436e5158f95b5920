/* SPDX-License-Identifier: MIT */
/* heaptape-machine: the costs of instructions, cache misses, TLB misses, page faults and system calls on this machine,
   as JSON on stdout. */
#include "core/command/cli.h"
#include "core/command/diagnostics.h"
#include "observe/machine/chains.h"
#include "observe/machine/measurement.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
  struct measured measured;
  bool sizes;
};

/* Reads numbers between two limits, rounded down to a multiple of CHAINS_WALKERS units. Returns how many; 0: invalid
   text. */
static size_t parse_list(const char *text, size_t lowest, size_t highest, size_t unit, size_t list[MEASURED_MOST]) {
  size_t step = unit * CHAINS_WALKERS;
  for (size_t count = 0; count < MEASURED_MOST; count++) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-' || value < lowest || value > highest)
      return 0;
    list[count] = (size_t)value / step * step;
    if (*end == '\0')
      return count + 1;
    if (*end != ',')
      return 0;
    text = end + 1;
  }
  return 0;
}

static const char *take_working_sets(void *field, const char *value) {
  struct measured *measured = field;
  measured->working_sets = parse_list(value, 4096, (size_t)4 << 30, CHAINS_LINE_BYTES, measured->working_set_bytes);
  return measured->working_sets ? NULL : "is not a list of bytes from 4096 to 4294967296";
}

static const char *take_os_pages(void *field, const char *value) {
  struct measured *measured = field;
  measured->os_page_sets = parse_list(value, 64, 1 << 20, 1, measured->os_pages);
  return measured->os_page_sets ? NULL : "is not a list of numbers from 64 to 1048576";
}

static const char *take_rounds(void *field, const char *value) {
  const char *problem = cli_count_32(field, value);
  return problem || *(unsigned *)field < 3 || *(unsigned *)field > SAMPLES_MAX ? "is not a number from 3 to 1024"
                                                                               : NULL;
}

static const struct cli_option table[] = {
    {"working-sets", 0, "BYTES,...", take_working_sets, offsetof(struct options, measured),
     .help = "chains of loads over working sets of these sizes, 4 KiB to 4 GiB",
     .fallback = "halves of caches of 32 KiB, 256 KiB, 1 MiB and 32 MiB, and 128 MiB"},
    {"os-pages", 0, "N,...", take_os_pages, offsetof(struct options, measured),
     .help = "chains of one line in each of N OS pages, 64 to 1048576", .fallback = "256,6144"},
    {"library", 0, "FILE", cli_text, offsetof(struct options, measured.library),
     .help = "loads this one, for the cost of the dynamic linker's instructions", .fallback = "not measured"},
    {"rounds", 0, "N", take_rounds, offsetof(struct options, measured.rounds),
     .help = "samples of each figure, 3 to 1024", .fallback = "30"},
    {"sizes", 0, NULL, cli_flag, offsetof(struct options, sizes),
     .help = "measure nothing: print the TLBs that CPUID reports"},
    {.name = NULL},
};
static const struct cli_command command = {.called = "heaptape-machine",
                                           .summary = "measure what misses, faults and instructions cost here",
                                           .synopsis = "[OPTION...]",
                                           .details = "",
                                           .options = table};
static const struct cli_command *const commands[] = {&command, NULL};
static const struct cli_program program = {"heaptape-machine", commands};

/* Prints and releases the object. Returns the exit status. */
static int print_json(json_t *object) {
  json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  putchar('\n');
  json_decref(object);
  return cli_finish_output(program.name);
}

int main(int argc, char **argv) {
  struct options options = {.measured = {.working_set_bytes = {16 << 10, 128 << 10, 512 << 10, 16 << 20, 128 << 20},
                                         .working_sets = 5,
                                         .os_pages = {256, 6144},
                                         .os_page_sets = 2,
                                         .rounds = 30}};
  struct cli_words words = {argv, argc};
  int status = cli_parse(&program, &command, &options, &words);
  if (status != CLI_RUN)
    return status;
  if (words.count > 0)
    return cli_wrong(program.name, &command, "unexpected argument: %s", words.at[0]);
  struct error error = {0};
  json_t *result = options.sizes ? measurement_sizes() : measurement_make(&options.measured, &error);
  if (result)
    return print_json(result);
  diagnostics_error(program.name, "%s", error.text);
  return CLI_FAILED;
}
