/* What a program may tell its recorder. Header only; include it and call the functions below: they do nothing where the
   program runs without heaptape, and nothing has to be linked.

   Job: leave out of the trace what is not the program's own doing. Thread-safe; counted, so pairs may nest; not for
   signal handlers. Objects allocated in a pause are unknown to the trace: release them in one too. */
#ifndef CAPTURE_HEAPTAPE_H
#define CAPTURE_HEAPTAPE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Exported by libheaptape.so; null pointers elsewhere. */
__attribute__((weak, visibility("default"))) void heaptape_pause(void);
__attribute__((weak, visibility("default"))) void heaptape_resume(void);

/* Calls of this thread are not recorded from here on ... */
static inline void heaptape_try_pause(void) {
  if (heaptape_pause)
    heaptape_pause();
}

/* ... until here. */
static inline void heaptape_try_resume(void) {
  if (heaptape_resume)
    heaptape_resume();
}

#ifdef __cplusplus
}
#endif

#endif
