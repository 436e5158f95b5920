/* SPDX-License-Identifier: MIT */
/* The recorded processes as a tree, for the list at a recording's end.

   Invariant: a list of any length prints in at most TREE_LINES lines and some with the number of those left out.
   Allocates with malloc; a process for which there is no memory counts among those left out. */
#pragma once

#include "capture/recorder/collector/collector_settings.h"

#include <stdio.h>

enum { TREE_LINES = 24 };

struct tree;

struct tree *tree_new(void);
void tree_free(struct tree *tree);

/* A process image's trace is complete. What is pointed to is copied. */
void tree_add(struct tree *tree, const struct process_summary *process);

/* One line each, children below their parent, those with most events if they are many. Nothing where there is one. */
void tree_print(const struct tree *tree, FILE *out);
