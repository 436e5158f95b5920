/* SPDX-License-Identifier: MIT */
/* Words that differ from process to process, and that a program's data does not contain by chance. */
#pragma once

#include <stdint.h>

/* Returns two odd words, which are therefore never a pointer. The same at each call. */
void secret_words(uintptr_t words[2]);
