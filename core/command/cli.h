/* SPDX-License-Identifier: MIT */
/* Command lines: each command of a program owns one table, by which its words are parsed and refused, and from which
   its --help is printed and described as JSON.

   Job: parsing with getopt_long (abbreviated names, options among arguments), errors of usage, --help,
   --describe-options, and the options that all programs have: --color and --quiet (core/command/diagnostics.h). Not its
   job: which options exclude or need one another; a command checks that and calls cli_wrong. Texts of help are wrapped
   here: a table has them without line breaks.

   Invariants: an option that isn't in a command's table is refused with exit status 2, whichever other command has it.
   Strings that a command gets are the command line's own. Prints, so only mains use it; one thread. */
#pragma once

#include "core/base/registry.h"

#include <stdbool.h>
#include <stddef.h>

enum { CLI_RUN = -1, CLI_DONE = 0, CLI_FAILED = 1, CLI_WRONG_USAGE = 2 };

/* Stores an option's value (NULL: it has none) in a field of the command's settings. Returns NULL, or what is wrong,
   which continues "--NAME VALUE: ". */
typedef const char *cli_take(void *field, const char *value);

struct cli_option {
  const char *name;  /* without dashes; NULL ends a table */
  char letter;       /* of the short form; 0: none */
  const char *value; /* NULL: takes none. "FILE". "[=DEPTH]": may be left out. "a|b|c" of a-z, 0-9, -: one of these */
  cli_take *take;    /* unused where it is one of several: then the field is an int, which of them, from 0 */
  size_t field;      /* offset in the settings */
  const char *help;  /* what it does, without a full stop if it is one phrase */
  const char *fallback;          /* the default, for people; NULL: none, or obvious */
  const char *group;             /* heading in the help; NULL: "options". Options of a group stand together */
  const struct cli_option *rows; /* instead of all this but field: another table, whose settings lie there; name: "" */
  const struct cli_option *const *added, *const *added_end; /* likewise: tables of other files (CLI_ADDED) */
  bool repeats; /* for people and completions: the parser accepts any option several times */
};

/* Options that a feature adds to a command are registered by being linked: at its file's end, CLI_ADD puts its table
   into a registry. The command's table has CLI_ADDED in a row, and CLI_PLACE before it. */
#define CLI_PLACE(place) REGISTRY(cli_##place, cli_option)
#define CLI_ADDED(place) .name = "", .added = __start_cli_##place, .added_end = __stop_cli_##place
#define CLI_ADD(place, rows) REGISTRY_ADD(cli_##place, cli_option, added_##rows, rows)

/* Words of the command line. */
struct cli_words {
  char **at;
  int count;
};

struct cli_command {
  const char *called;   /* "heaptape info", as users type it. Its last word selects the command if there are several */
  const char *summary;  /* one phrase */
  const char *synopsis; /* its forms, a line each: "[OPTION...] F" */
  const char *details;  /* paragraphs, separated by an empty line; lines that begin with a space are kept as they are */
  const struct cli_option *options; /* NULL: only those that all commands have */
  int least, most;                  /* arguments that aren't options; most 0: any number */
  bool ends_at_argument;            /* options end at the first argument: the rest is another program's */
  const void *defaults;             /* of its settings, which have that many bytes; NULL: zeroes */
  size_t settings_bytes;
  unsigned turn; /* its place in the list of commands, where they register themselves */
  int (*run)(void *settings, struct cli_words words); /* the arguments that aren't options; returns the exit status */
};

struct cli_program {
  const char *name;                          /* "heaptape-convert": begins errors */
  const struct cli_command *const *commands; /* ends with NULL */
};

/* Runs the command that argv[1] names, or prints the help of all, or their description. Returns the exit status. */
int cli_main(const struct cli_program *program, int argc, char **argv);

/* Parses a command's words, of which the first is left out, into settings, which have their defaults. Then *words are
   the arguments that aren't options. Returns CLI_RUN, or else the exit status: --help, --help-all or --describe-options
   was printed, or an error. */
int cli_parse(const struct cli_program *program, const struct cli_command *command, void *settings,
              struct cli_words *words);

/* Prints "PROGRAM: what is wrong (COMMAND --help)"; returns CLI_WRONG_USAGE. program: its name. command NULL: none. */
__attribute__((format(printf, 3, 4))) int cli_wrong(const char *program, const struct cli_command *command,
                                                    const char *format, ...);

/* Returns CLI_RUN, or CLI_WRONG_USAGE with a message: output is one of the files that are read, under whatever name.
   NULL or "-": there is none. cli_parse checks what is given by -o. */
int cli_spares_inputs(const char *program, const struct cli_command *command, const char *output,
                      struct cli_words read);

/* Writes out what was printed. Returns CLI_DONE, or CLI_FAILED with a message if output was lost (a full disk, a closed
   pipe). */
int cli_finish_output(const char *program);

/* Takers for tables. Fields: bool; const char *; uint64_t; uint32_t; double. Numbers are decimal and at least 0. */
const char *cli_flag(void *field, const char *value);
const char *cli_text(void *field, const char *value);
const char *cli_count(void *field, const char *value);
const char *cli_count_above_0(void *field, const char *value);
const char *cli_count_32(void *field, const char *value);
const char *cli_decimal(void *field, const char *value);
