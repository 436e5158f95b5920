/* SPDX-License-Identifier: MIT */
/* heaptape-machine: the costs of instructions, cache misses, TLB misses, page faults and system calls on this machine,
   as JSON on stdout. */
#include "observe/machine/chains.h"
#include "observe/machine/measurement.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

static const char USAGE[] =
    "usage: heaptape-machine [--working-sets BYTES,...] [--os-pages N,...] [--library FILE] [--rounds N] | --sizes\n"
    "  --working-sets BYTES,...  chains of loads over working sets of these sizes, 4 KiB to 4 GiB (default: halves of caches of 32 KiB,\n"
    "                            256 KiB, 1 MiB and 32 MiB, and 128 MiB)\n"
    "  --os-pages N,...          chains of one line in each of N OS pages, 64 to 1048576 (default 256,6144)\n"
    "  --library FILE            loads this one, for the cost of the dynamic linker's instructions (default: not measured)\n"
    "  --rounds N                samples of each figure, 3 to 1024 (default 30)\n"
    "  --sizes                   measure nothing: print the TLBs that CPUID reports\n";

/* Reads numbers between two limits, rounded down to a multiple of CHAINS_WALKERS units. Returns how many; 0: invalid
   text. */
static size_t parse_list(const char *text, size_t lowest, size_t highest, size_t unit, size_t list[PLAN_MAX]) {
  size_t step = unit * CHAINS_WALKERS;
  for (size_t count = 0; count < PLAN_MAX; count++) {
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

static bool parse_option(struct plan *plan, int option) {
  size_t number[PLAN_MAX];
  switch (option) {
  case 'w':
    plan->working_sets = parse_list(optarg, 4096, (size_t)4 << 30, CHAINS_LINE_BYTES, plan->working_set_bytes);
    return plan->working_sets > 0;
  case 'p':
    plan->os_page_sets = parse_list(optarg, 64, 1 << 20, 1, plan->os_pages);
    return plan->os_page_sets > 0;
  case 'l':
    plan->library = optarg;
    return true;
  case 'r':
    plan->rounds = (unsigned)strtoul(optarg, NULL, 10);
    return parse_list(optarg, 3, SAMPLES_MAX, 1, number) == 1;
  default:
    return false;
  }
}

/* Prints and releases the object. Returns the exit status. */
static int print_json(json_t *object) {
  int failed = json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  json_decref(object);
  if (failed || putchar('\n') == EOF || fflush(stdout) != 0) {
    fprintf(stderr, "heaptape-machine: standard output: can't be written\n");
    return EXIT_FAILED;
  }
  return EXIT_DONE;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"working-sets", required_argument, NULL, 'w'},
                                          {"os-pages", required_argument, NULL, 'p'},
                                          {"library", required_argument, NULL, 'l'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"sizes", no_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  struct plan plan = {.working_set_bytes = {16 << 10, 128 << 10, 512 << 10, 16 << 20, 128 << 20},
                      .working_sets = 5,
                      .os_pages = {256, 6144},
                      .os_page_sets = 2,
                      .rounds = 30};
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'h') {
      fputs(USAGE, stdout);
      return EXIT_DONE;
    }
    if (option == 's')
      return print_json(measurement_sizes());
    if (!parse_option(&plan, option)) {
      fprintf(stderr, "heaptape-machine: %s: unknown option or invalid value\n", argv[optind - 1]);
      return EXIT_USAGE;
    }
  }
  if (optind < argc) {
    fprintf(stderr, "heaptape-machine: %s: unexpected argument\n", argv[optind]);
    return EXIT_USAGE;
  }
  struct error error = {{0}};
  json_t *result = measurement_make(&plan, &error);
  if (!result) {
    fprintf(stderr, "heaptape-machine: %s\n", error.text);
    return EXIT_FAILED;
  }
  return print_json(result);
}
