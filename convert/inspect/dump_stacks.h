/* SPDX-License-Identifier: MIT */
/* Prints call stacks: each where it first occurs in dump, or all nodes of the tree that they form.

   As text: comment lines, innermost function first, so that it reads back:
     # stack 7
     #   inner at /src/a.c:5 in a.out+0x118c
     #   main at /src/a.c:9 in a.out+0x1190
   As JSON: one object on a line, {"stack": 7, "frames": [{"function", "file", "line", "module", "offset"}]};
   unknown values are left out. A node is {"node": 7, "parent": 3, "frames": [...]}: its own frames only, several where
   functions were inlined. Not thread-safe. */
#pragma once

#include "convert/stacks/symbols.h"

#include <stdio.h>

/* Returns 0, or -1: the output can't be written (errno has the reason). */
int dump_stack_as_text(FILE *out, struct symbols *symbols, uint32_t node);
int dump_stack_as_json(FILE *out, struct symbols *symbols, uint32_t node);

/* Prints every node of the trace as JSON, parents before children; no event is read. fetch: as for symbols_open.
   Returns 0, or -1 with error. An error of writing names out_name. */
int dump_stack_nodes(struct trace_reader *reader, bool fetch, FILE *out, const char *out_name, struct error *error);
