/* SPDX-License-Identifier: MIT */
/* The option or command that a user probably meant.

   Job: finds the known long option, or word, that is nearest to a wrong one. Not its job: parsing options, printing.
   Any thread; allocates nothing. */
#pragma once

#include <getopt.h>

/* Returns the name nearest to word, as the user gave it ("--flag" or "--flag=value"), in options, which end with one
   without a name. NULL: word is not a long option, is one of them (then something else is wrong), or none is near. */
const char *near_option(const char *word, const struct option *options);

/* Returns the word nearest to word in known, which ends with NULL. NULL: it is one of them, or none is near. */
const char *near_word(const char *word, const char *const *known);
