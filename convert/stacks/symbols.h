/* SPDX-License-Identifier: MIT */
/* The function, file and line of each node of a trace's call stacks, as far as the files on this machine have them.

   Job: the tree and the modules of a trace in memory, each instruction looked up once, by elfutils' libdwfl. A module's
   file is used only if its build id is that of the recording; without the file, or without symbols, a frame is module
   and offset. Nothing is fetched from elsewhere (debuginfod) unless requested. Memory is O(nodes). Not thread-safe. */
#pragma once

#include "core/trace/read/trace_read.h"

#include <jansson.h>
#include <stdbool.h>

struct symbols;

/* One function of a stack; several of one node where functions were inlined, innermost first. */
struct symbol {
  const char *function; /* demangled; NULL: not known */
  const char *file;     /* source; NULL: not known */
  int line;             /* 0: not known */
  const char *module;   /* base name; NULL: the instruction is in no module */
  uint64_t offset; /* of the instruction in the module as its own headers count; the instruction if module is NULL */
};

/* fetch: missing debug information may be fetched by debuginfod, as configured in the environment. Returns 0, or -1
   with error. */
int symbols_open(struct symbols **out, struct trace_reader *reader, bool fetch, struct error *error);
void symbols_close(struct symbols *symbols);

/* Without a trace: add modules first, then instructions. Each instruction becomes the next node, with no parent.
   symbols_new returns NULL if there is no memory; the other functions return 0, or -1: no memory. */
struct symbols *symbols_new(void);
int symbols_add_module(struct symbols *symbols, const struct trace_module *module);
int symbols_add_instruction(struct symbols *symbols, uint64_t instruction);

/* How many nodes there are; they are numbered from 1. */
uint32_t symbols_nodes(const struct symbols *symbols);

/* The node of the caller's frame; 0: none. */
uint32_t symbols_parent(const struct symbols *symbols, uint32_t node);

/* Returns the symbols of the node's instruction and their *count, at least 1. Instruction 0 (its callers are not known)
   has neither function nor module. Valid until symbols_close. */
const struct symbol *symbols_of(struct symbols *symbols, uint32_t node, size_t *count);

/* Frames as JSON, in the same form in `dump --stacks --format jsonl`, `spans` and the origins file
   (docs/formats/ORIGINS.md): {function, file, line, module, offset} without those that are unknown. New references;
   NULL: no memory. */
json_t *symbol_json(const struct symbol *symbol);

/* The frames of the node, or of its whole stack, innermost first. symbols may be NULL: then there are none. */
json_t *frames_json(struct symbols *symbols, uint32_t node, bool whole_stack);

/* Returns a name or path as a string; "?" if it is not UTF-8. A new reference. */
json_t *symbol_text_json(const char *text);
