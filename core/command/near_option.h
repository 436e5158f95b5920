/* SPDX-License-Identifier: MIT */
/* The option or command that a user may have meant.

   Job: the known long option, or word, that is nearest to a wrong one. Not its job: parsing options, printing. No
   limits on threads; allocates nothing. */
#pragma once

#include <getopt.h>

/* Of the options, up to the one without a name: the name nearest to word, which is as the user gave it ("--flag" or
   "--flag=value"). NULL: word is no long option, is one of them (then something else is wrong), or none is near. */
const char *near_option(const char *word, const struct option *options);

/* Of the known words, up to NULL: the nearest to word. NULL: it is one of them, or none is near. */
const char *near_word(const char *word, const char *const *known);
