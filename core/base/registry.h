/* SPDX-License-Identifier: MIT */
/* Registries: structs that other files add to a program by being linked into it as objects. So what reads a registry
   names none of its entries, and a feature whose files are deleted is gone.

   An entry is a pointer in a section of the linker, whose bounds the linker names; where nothing is added, both are
   NULL. The order of entries means nothing. */
#pragma once

/* Declares the registry `name`, of pointers to const struct `type`: for what reads it. */
#define REGISTRY(name, type)                                                                                           \
  __attribute__((weak, visibility("hidden"))) extern const struct type *const __start_##name[], *const __stop_##name[]

/* Adds an entry, the variable `entry`, to it. Behind the definition of what it points to. */
#define REGISTRY_ADD(name, type, entry, pointer)                                                                       \
  __attribute__((used, section(#name))) static const struct type *const entry = pointer

#define REGISTRY_FOR_EACH(name, type, entry)                                                                           \
  for (const struct type *const *entry = __start_##name; entry < __stop_##name; entry++)

/* Of a registry of one entry at most; NULL: there is none. */
#define REGISTRY_ONLY(name) (__start_##name ? *__start_##name : NULL)
