/* SPDX-License-Identifier: MIT */
/* Binary tables in JSON: zlib, then base64 ("zlib+base64"). */
#pragma once

#include <stddef.h>

/* A new string, the caller's to free; NULL: no memory. */
char *report_packed(const void *bytes, size_t count);
