/* SPDX-License-Identifier: MIT */
/* Brings a trace's data accesses into the order of its history, for what is made of both. A feature registers it by
   being linked (convert/accesses/access_order.h says what each function does). */
#pragma once

#include "convert/history/history.h"
#include "core/base/registry.h"

/* Receives the items, in order: ACCESS_EVENT with thread and stack pointer, ACCESS_OBJECT with the object's slot,
   ACCESS_OTHER, ACCESS_BURST. Returns 0, or -1 to stop, and fills in the error itself. */
struct access_sink {
  int (*put)(void *context, const struct access_item *item);
  void *context;
};

struct access_order;

struct orderer {
  int (*open)(struct access_order **out, struct trace_reader *reader, const struct access_sink *sink,
              struct error *error);
  int (*op)(struct access_order *order, const struct history_op *op);
  int (*left_out)(struct access_order *order, const struct merge_step *step, bool wanted);
  int (*finish)(struct access_order *order, uint64_t *lost); /* lost: accesses whose object is not live there */
  void (*close)(struct access_order *order);
};

#define REGISTER_ORDERER(one) REGISTRY_ADD(orderers, orderer, entry_##one, &one)
REGISTRY(orderers, orderer);

/* NULL: there is none. */
static inline const struct orderer *orderer(void) {
  return REGISTRY_ONLY(orderers);
}
