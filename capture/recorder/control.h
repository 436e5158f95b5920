/* SPDX-License-Identifier: MIT */
/* What the operator can do with a running recording: start, stop, flush, status, and limits of time and size.

   Requests come over the collector's socket as one JSON object, {"verb": "start", "pid": N}, from a process of the same
   user or of root; the reply is also one object, {"ok": true, ...} or {"ok": false, "error": "..."}. pid is a recorded
   process, or the recorder, for all current and later processes. Verbs: those of `heaptape ctl`, and counts and modules
   for `heaptape top`. One thread, the serving one. */
#pragma once

#include "capture/recorder/recording.h"

/* Carries out a request; returns the reply, to be freed, or NULL if there is no memory. */
char *control_request(struct collector *collector, const char *text);

/* Starts the recording of all processes if it is stopped, else stops it. */
void control_toggle(struct collector *collector);

/* Begins or ends a burst in all processes. */
void control_burst(struct collector *collector, enum burst_request request);

/* Ends the recording if its time is over or the traces have grown too large. Cheap. */
void control_keep_limits(struct collector *collector);

/* Called once, before anything is served. A limit of time runs from the first start. */
void control_begin(struct collector *collector);

/* Called when the first process is recorded: with --attach, and under Valgrind, which takes a while to begin, the limit
   of time runs from then. */
void control_first_process(struct collector *collector);
