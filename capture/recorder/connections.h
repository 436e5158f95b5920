/* SPDX-License-Identifier: MIT */
/* The collector's socket: attaching processes, their other requests, and the operator's requests.

   Not its job: when it is served (collector.c), what the operator's requests do (control.h). Invariant: nothing waits
   for a process that has connected and not yet sent its request; requests of other users are refused. */
#pragma once

#include "capture/recorder/collector_state.h"

/* Makes the socket and its address. Returns 0, or -1 with errno set. */
int connections_open(struct collector *collector);

/* Accepts connections, and serves those whose request has arrived. */
void connections_serve(struct collector *collector);
