/* SPDX-License-Identifier: MIT */
/* The collector's socket: attaching processes, their other requests, and the operator's requests.

   Not its job: when it is served (collector.c), what the operator's requests do (control.c). Invariants: nothing waits
   for a process that has connected and not yet sent its request; requests of other users, and those that another
   process than the connected one sends, are refused (capture/wire/proof.h). */
#pragma once

#include "capture/recorder/recording.h"

/* Makes the sockets and their address. Returns 0, or -1 with errno set. */
int connections_open(struct collector *collector);
void connections_close(struct collector *collector);

/* Removes the socket that has a path. */
void connections_unlink(const struct collector *collector);

/* Of the descriptors for one more process, and its connection, how many are not free? */
uint32_t connections_lack(const struct collector *collector);

/* Accepts connections, and serves those whose request has arrived. */
void connections_serve(struct collector *collector);
