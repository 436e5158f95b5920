/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/data_accesses.h"

#include <pub_tool_libcassert.h>

void data_accesses_break(struct data_accesses *accesses) {
  accesses->read_address = NULL;
}

static void add_read(struct data_accesses *accesses, const struct data_access *read) {
  accesses->add(accesses->context, read);
  accesses->read_address = read->address;
  accesses->read_bytes = read->bytes;
}

static void add_write(struct data_accesses *accesses, const struct data_access *write) {
  Bool joins = accesses->read_address && accesses->read_bytes == write->bytes &&
               eqIRAtom(accesses->read_address, write->address);
  accesses->read_address = NULL;
  if (!joins)
    accesses->add(accesses->context, write);
}

static void add_guarded(struct data_accesses *accesses, const struct data_access *access) {
  accesses->read_address = NULL;
  accesses->add(accesses->context, access);
}

static Int size_of(const struct data_accesses *accesses, const IRExpr *expression) {
  return sizeofIRType(typeOfIRExpr(accesses->in->tyenv, expression));
}

static Bool is_always(const IRExpr *guard) {
  return guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1;
}

static void add_dirty(struct data_accesses *accesses, const IRDirty *call) {
  struct data_access access = {call->mAddr, call->mSize, is_always(call->guard) ? NULL : call->guard, True};
  if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
    add_read(accesses, &access);
  if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
    add_write(accesses, &access);
}

static void add_cas(struct data_accesses *accesses, const IRCAS *cas) {
  Int bytes = size_of(accesses, cas->dataLo) * (cas->dataHi ? 2 : 1);
  struct data_access access = {cas->addr, bytes, NULL, False};
  add_read(accesses, &access);
  add_write(accesses, &access);
}

static void add_guarded_load(struct data_accesses *accesses, const IRLoadG *load) {
  IRType result, loaded;
  typeOfIRLoadGOp(load->cvt, &result, &loaded);
  add_guarded(accesses, &(struct data_access){load->addr, sizeofIRType(loaded), load->guard, False});
}

static void add_guarded_store(struct data_accesses *accesses, const IRStoreG *store) {
  add_guarded(accesses, &(struct data_access){store->addr, size_of(accesses, store->data), store->guard, False});
}

static void add_load(struct data_accesses *accesses, const IRExpr *data) {
  if (data->tag == Iex_Load)
    add_read(accesses, &(struct data_access){data->Iex.Load.addr, sizeofIRType(data->Iex.Load.ty), NULL, False});
}

void data_accesses_of(struct data_accesses *accesses, const IRStmt *statement) {
  switch (statement->tag) {
  case Ist_WrTmp:
    add_load(accesses, statement->Ist.WrTmp.data);
    break;
  case Ist_Store:
    add_write(accesses, &(struct data_access){statement->Ist.Store.addr, size_of(accesses, statement->Ist.Store.data),
                                              NULL, False});
    break;
  case Ist_StoreG:
    add_guarded_store(accesses, statement->Ist.StoreG.details);
    break;
  case Ist_LoadG:
    add_guarded_load(accesses, statement->Ist.LoadG.details);
    break;
  case Ist_Dirty:
    add_dirty(accesses, statement->Ist.Dirty.details);
    break;
  case Ist_CAS:
    add_cas(accesses, statement->Ist.CAS.details);
    break;
  default: /* x86-64 has no other statements that touch memory */
    break;
  }
}
