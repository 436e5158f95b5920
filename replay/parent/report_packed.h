/* SPDX-License-Identifier: MIT */
/* Binary tables in JSON: zlib, then base64 ("zlib+base64"). */
#pragma once

#include <stddef.h>

/* Returns a new string, which the caller frees; NULL: no memory. */
char *report_packed(const void *bytes, size_t count);
