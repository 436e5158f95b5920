/* SPDX-License-Identifier: MIT */
/* The event: one malloc-API call, as all parts of heaptape pass it on, and the table of calls.

   Job: the vocabulary. Not its job: reading, writing, meaning of order (core/trace/FORMAT.md has that).
   Invariants: ids are those of calls.def and never change; an event is self-contained (no pointer into a buffer). */
#pragma once

#include "core/base/touched.h"

#include <stdbool.h>
#include <stdint.h>

enum call_release { NOTHING, RELEASES, TOUCHES };
enum call_param { NONE, COUNT, ALIGN, OPTION };

enum call_id {
#define CALL(id, ident, name, acquires, released, size, param) CALL_##ident = id,
#include "core/trace/calls.def"
  CALL_LIMIT = 64
};

/* The flags in a call byte, next to the id. */
enum {
  CALL_ID_MASK = 0x3f,
  CALL_NULL_IN = 0x40,  /* NULL was passed in where the call takes an object */
  CALL_NULL_OUT = 0x80, /* returned no object where it could have: NULL or an error */
};

struct call_info {
  const char *name; /* NULL: no such call */
  const char *ident;
  bool acquires;
  bool has_size;
  enum call_release released;
  enum call_param param;
};

/* Indexed by id, CALL_LIMIT entries. */
extern const struct call_info call_table[CALL_LIMIT];

/* The properties of an event that follow from its call byte, id and flags. */
enum event_trait {
  EVENT_TAKES = 1,    /* a non-null address is passed in */
  EVENT_RELEASES = 2, /* the object passed in is released: free, a realloc that succeeded */
  EVENT_ACQUIRES = 4, /* an object is handed to the program */
  EVENT_TWO_STEPS = EVENT_RELEASES | EVENT_ACQUIRES,
  CALL_IS_LEGAL = 8, /* id and flags can occur together */
  CALL_HAS_SIZE = 16,
  CALL_HAS_PARAM = 32,
  CALL_HAS_COUNT = 64,         /* the param is a count */
  CALL_RELEASES_IF_ZERO = 128, /* a realloc that returned no object: it freed its object if 0 bytes were requested */
};

/* Sums of enum event_trait, indexed by call byte. */
extern const uint8_t call_traits[256];

/* The id with that name or identifier ("malloc", "operator new", "new"); -1 if there is none. */
int call_by_name(const char *name);

/* For the writer, 0 in a stamp means "inherits"; the reader always fills stamps in. */
struct trace_event {
  uint64_t released;         /* address passed in (released or touched); 0 if NULL or none */
  uint64_t acquired;         /* address handed out; 0 if none */
  uint64_t size_bytes;       /* as passed to the call, without the count */
  uint64_t param;            /* element count, alignment in bytes or option; 0 if the call has none */
  uint64_t release_stamp;    /* stamp of the releasing (or touching) step */
  uint64_t acquire_stamp;    /* stamp of the acquiring step, or of the only step of an event that does neither */
  uint64_t latency;          /* duration of the real call in units of the trace's clock, plus 1; 0 = not known */
  uint32_t touched_os_pages; /* resident OS pages of the released object, plus 1; 0 = not known */
  uint32_t touched_parts;    /* where they were (core/base/touched.h) */
  uint32_t slack_bytes;      /* usable size of the acquired object less the request, plus 1; 0 = not known */
  uint32_t stack;            /* node of the trace's tree of call stacks; 0 = not known */
  uint8_t call;              /* id and flags */
};

/* Request in bytes, count included; saturates at UINT64_MAX where the product overflows. */
static inline uint64_t trace_event_request_bytes(const struct trace_event *event) {
  if (!(call_traits[event->call] & CALL_HAS_COUNT))
    return event->size_bytes;
  uint64_t bytes;
  return __builtin_mul_overflow(event->size_bytes, event->param, &bytes) ? UINT64_MAX : bytes;
}

/* Slack as the event holds it: an object whose usable size is more than 4 GiB above the request is recorded as 4 GiB -
   2; one whose usable size is below the request as 0. */
static inline uint32_t trace_event_slack(uint64_t request_bytes, uint64_t usable_bytes) {
  uint64_t slack_bytes = usable_bytes > request_bytes ? usable_bytes - request_bytes : 0;
  return slack_bytes < UINT32_MAX - 1 ? (uint32_t)slack_bytes + 1 : UINT32_MAX;
}

/* Usable size of the acquired object; 0 = not known. */
static inline uint64_t trace_event_usable_bytes(const struct trace_event *event) {
  return event->slack_bytes ? trace_event_request_bytes(event) + event->slack_bytes - 1 : 0;
}

/* The traits of the event's call byte, with EVENT_RELEASES also where the size makes it a release. */
static inline uint8_t trace_event_traits(const struct trace_event *event) {
  uint8_t traits = call_traits[event->call];
  bool frees = __builtin_expect(traits & CALL_RELEASES_IF_ZERO, 0) && trace_event_request_bytes(event) == 0;
  return frees ? traits | EVENT_RELEASES : traits;
}

/* True where a non-null address is passed in. */
static inline bool trace_event_takes(const struct trace_event *event) {
  return call_traits[event->call] & EVENT_TAKES;
}

/* True where the event releases the object passed in: free, a realloc that succeeded or that freed. */
static inline bool trace_event_releases(const struct trace_event *event) {
  return trace_event_traits(event) & EVENT_RELEASES;
}

/* True where the event hands an object to the program. */
static inline bool trace_event_acquires(const struct trace_event *event) {
  return call_traits[event->call] & EVENT_ACQUIRES;
}

/* 2 for an event that both releases and acquires, else 1. */
static inline unsigned trace_event_steps(const struct trace_event *event) {
  return (trace_event_traits(event) & EVENT_TWO_STEPS) == EVENT_TWO_STEPS ? 2 : 1;
}

/* Stamp of an event's only or first step. */
static inline uint64_t trace_event_first_stamp(const struct trace_event *event) {
  return trace_event_takes(event) ? event->release_stamp : event->acquire_stamp;
}

/* Is this a legal combination of id and flags? */
static inline bool trace_call_is_legal(uint8_t call) {
  return call_traits[call] & CALL_IS_LEGAL;
}

/* Does the call set the allocator up, or ask it for something, without an object? */
static inline bool call_is_control(uint8_t call) {
  const struct call_info *info = &call_table[call & CALL_ID_MASK];
  return info->name && !info->acquires && info->released == NOTHING;
}

/* Does the call state the size of the object that it releases? */
static inline bool call_states_size(uint8_t call) {
  enum { ALL = CALL_HAS_SIZE | EVENT_RELEASES | EVENT_ACQUIRES | CALL_RELEASES_IF_ZERO };
  return (call_traits[call] & ALL) == (CALL_HAS_SIZE | EVENT_RELEASES);
}
