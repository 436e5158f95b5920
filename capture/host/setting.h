/* SPDX-License-Identifier: MIT */
/* HEAPTAPE_SOCKET: how to reach the recorder (capture/wire/ring.h).

   Not its job: reaching it (attach.c). Invariants: read once per image, and again where --attach has given another one.
   Allocates nothing, async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Reads it, if it has not been read; `again`: in any case. False: there is none. */
bool setting_read(bool again);

/* Where the constructor was passed the environment, which may not have been set up before. */
void setting_note_environment(char **environment);

/* Does it contain that mark (ring.h)? */
bool setting_has(char mark);

/* The address and the secret; false: it is not of that form. */
bool setting_parse(struct sockaddr_un *address, socklen_t *address_bytes, uint64_t *secret);

/* Makes the name of the abstract socket that of the one with a path. False: it does not fit. */
bool setting_make_path(struct sockaddr_un *address, socklen_t bytes);

/* The recorder was reached by that path. A fork child finds its parent's: it is where its parent was. */
void setting_note_path(void);

/* Is the recorder out of reach of what the process executes now, as that path is? */
bool setting_is_cut_off(void);

/* Filters of system calls: the recorder's, and those set since that permit attaching (ATTACH_FILTERS_FORBID: one does
   not), by programs that executed this one. setting_set_filters: for programs that this one executes; changes the
   variable in place, if it is still where the kernel put it. */
struct setting_filters {
  uint8_t recorders, since;
};
struct setting_filters setting_filters(void);
void setting_set_filters(struct setting_filters filters);
