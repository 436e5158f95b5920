/* SPDX-License-Identifier: MIT */
/* Names for the call stacks that acquire: each stack's frames, and the function that names it.

   Job: number functions; collect frames, each once, as JSON (docs/formats/ORIGINS.md, origins file). An allocation
   wrapper never names a stack that has another frame, as it would name all of them. Stacks end at main, or at a
   thread's function: what the C library calls before that is left out. Invariants: site and function 0 are "no stack
   known"; functions are numbered in the order of their first sites. Memory is O(sites + nodes). Not thread-safe. */
#pragma once

#include "convert/stacks/symbols.h"

/* Does a function of that name (demangled) only pass on memory that it allocates? */
bool is_allocation_wrapper(const char *function);

struct site_names;

/* symbols must outlive it; NULL: there are no stacks. Returns NULL if there is no memory. */
struct site_names *site_names_new(struct symbols *symbols);
void site_names_free(struct site_names *names);

/* Adds the next site: the stack that ends at that node; the first must be 0. Returns its function's number;
   UINT32_MAX: no memory. */
uint32_t site_names_add(struct site_names *names, uint32_t node);

/* The name of the function of the stack that ends at that node, as site_names_add finds it; the stack need not be a
   site. Not with node 0. False: no memory. */
enum { SITE_FUNCTION_BYTES = 512 };
bool site_names_function(struct site_names *names, uint32_t node, char name[SITE_FUNCTION_BYTES]);

uint32_t site_names_functions(const struct site_names *names);

/* Sets the keys frames, sites and functions. Returns 0, or -1: no memory. */
int site_names_json(const struct site_names *names, json_t *into);
