/* SPDX-License-Identifier: MIT */
/* The recorded processes as a tree, for the list at a recording's end.

   Invariant: a list of any length prints in at most TREE_LINES lines, plus some lines with the number of processes left
   out. Allocates with malloc; a process for which there is no memory counts among those left out. */
#pragma once

#include "capture/recorder/collector_settings.h"

#include <stdio.h>

enum { TREE_LINES = 24 };

struct tree;

struct tree *tree_new(void);
void tree_free(struct tree *tree);

/* Adds a process image whose trace is complete. What is pointed to is copied. */
void tree_add(struct tree *tree, const struct process_summary *process);

/* Prints one line per process, children below their parent; of many, those with most events. Prints nothing for one. */
void tree_print(const struct tree *tree, FILE *out);
