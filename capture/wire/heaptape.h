/* SPDX-License-Identifier: MIT */
/* For programs that mark their phases, or leave calls out of their recording. Header only; C and C++. Include it and
   call the functions below: they do nothing where the program runs without heaptape, and no library has to be linked.

   Thread-safe; cheap where recorded, a test of a pointer where not; keeps errno; not for signal handlers. */
#ifndef CAPTURE_WIRE_HEAPTAPE_H
#define CAPTURE_WIRE_HEAPTAPE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Exported by libheaptape.so; null pointers elsewhere. Use the functions below. */
__attribute__((weak, visibility("default"))) void heaptape_lib_mark(const char *text);
__attribute__((weak, visibility("default"))) void heaptape_lib_pause(void);
__attribute__((weak, visibility("default"))) void heaptape_lib_resume(void);
__attribute__((weak, visibility("default"))) void heaptape_lib_exclude(void);
__attribute__((weak, visibility("default"))) void heaptape_lib_include(void);

/* Puts a mark into the trace: "here phase 2 begins". text: UTF-8, of which the first 255 bytes are kept. */
static inline void heaptape_mark(const char *text) {
  if (heaptape_lib_mark)
    heaptape_lib_mark(text);
}

/* Suspends the recording of all threads of the process; another thread stops at its next call. The trace counts the
   calls that are left out. */
static inline void heaptape_pause(void) {
  if (heaptape_lib_pause)
    heaptape_lib_pause();
}

/* Ends a pause. Counted, so that pairs may nest. Does not start what `heaptape ctl` has stopped. */
static inline void heaptape_resume(void) {
  if (heaptape_lib_resume)
    heaptape_lib_resume();
}

/* Leaves this thread's calls out of the trace from here on, without counting them as missing: for calls of a test
   harness or a tool, which are not the program's own. Objects allocated by them must be released before
   heaptape_include. */
static inline void heaptape_exclude(void) {
  if (heaptape_lib_exclude)
    heaptape_lib_exclude();
}

/* Ends an exclusion. Counted, so that pairs may nest. */
static inline void heaptape_include(void) {
  if (heaptape_lib_include)
    heaptape_lib_include();
}

#ifdef __cplusplus
}
#endif

#endif
