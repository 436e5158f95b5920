/* SPDX-License-Identifier: MIT */
/* Words that differ from process to process, which a program has in its own data by no chance. */
#pragma once

#include <stdint.h>

/* Gives two words, odd, so that they are never a pointer. The same at each call. */
void secret_words(uintptr_t words[2]);
