/* SPDX-License-Identifier: MIT */
/* The option that a user may have meant.

   Job: the known long option whose name is nearest to a wrong one. Not its job: parsing options, printing. No limits on
   threads; allocates nothing. */
#ifndef CORE_BASE_NEAR_OPTION_H
#define CORE_BASE_NEAR_OPTION_H

#include <getopt.h>

/* Of the options, up to the one without a name: the name nearest to word, which is as the user gave it ("--flag" or
   "--flag=value"). NULL: word is no long option, is one of them (then something else is wrong), or none is near. */
const char *near_option(const char *word, const struct option *options);

#endif
