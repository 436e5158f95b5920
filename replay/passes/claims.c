/* SPDX-License-Identifier: MIT */
#include "replay/passes/claims.h"

#include "core/base/os.h"

#include <stdatomic.h>
#include <stddef.h>

enum {
  ADDRESS_BITS = 48,
  TABLE_BITS = 24, /* 16 MiB of addresses per table: 8 MiB, mapped as it is touched */
  PIECE_BITS = 3,
  TABLES = 1 << (ADDRESS_BITS - TABLE_BITS),
  PIECES = 1 << (TABLE_BITS - PIECE_BITS),
};

typedef _Atomic uint32_t owner_of_piece;

static owner_of_piece *_Atomic *tables;

int claims_setup(void) {
  tables = os_map(sizeof *tables * TABLES, true);
  return tables ? 0 : -1;
}

/* Returns the piece's entry; NULL: not checked, or no memory for its table. */
static owner_of_piece *piece_at(uint64_t address) {
  uint64_t number = address >> TABLE_BITS;
  if (number >= TABLES)
    return NULL;
  owner_of_piece *table = atomic_load_explicit(&tables[number], memory_order_acquire);
  if (!table) {
    owner_of_piece *made = os_map(sizeof *made * PIECES, true);
    if (!made)
      return NULL;
    if (atomic_compare_exchange_strong(&tables[number], &table, made))
      table = made;
    else
      os_unmap(made, sizeof *made * PIECES); /* another thread was faster: table is that thread's */
  }
  return &table[(address >> PIECE_BITS) & (PIECES - 1)];
}

/* Returns how many pieces from address on are in its table, up to last. */
static uint64_t pieces_here(uint64_t address, uint64_t last) {
  uint64_t end =
      (address | (((uint64_t)1 << TABLE_BITS) - 1)) < last ? address | (((uint64_t)1 << TABLE_BITS) - 1) : last;
  return (end >> PIECE_BITS) - (address >> PIECE_BITS) + 1;
}

uint32_t claims_add(uint64_t address, uint64_t bytes, uint32_t owner) {
  uint32_t found = 0;
  for (uint64_t last = address + bytes - 1; bytes > 0 && address <= last;) {
    owner_of_piece *piece = piece_at(address);
    uint64_t count = pieces_here(address, last);
    for (uint64_t index = 0; piece && index < count; index++) {
      uint32_t before = 0;
      if (!atomic_compare_exchange_strong_explicit(&piece[index], &before, owner, memory_order_acq_rel,
                                                   memory_order_acquire) &&
          before != owner)
        found = before;
    }
    address = ((address >> PIECE_BITS) + count) << PIECE_BITS;
  }
  return found;
}

void claims_remove(uint64_t address, uint64_t bytes, uint32_t owner) {
  for (uint64_t last = address + bytes - 1; bytes > 0 && address <= last;) {
    owner_of_piece *piece = piece_at(address);
    uint64_t count = pieces_here(address, last);
    for (uint64_t index = 0; piece && index < count; index++) {
      uint32_t before = owner;
      atomic_compare_exchange_strong_explicit(&piece[index], &before, 0, memory_order_release, memory_order_relaxed);
    }
    address = ((address >> PIECE_BITS) + count) << PIECE_BITS;
  }
}
