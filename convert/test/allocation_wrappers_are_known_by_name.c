/* SPDX-License-Identifier: MIT */
/* Functions that never name a site: those that only pass on memory that they allocate, regardless of the names in their
   return type, parameters and template arguments. */
#include "convert/stacks/site_names.h"

#include <stdio.h>

static const char *const wrappers[] = {
    "malloc",
    "xmalloc",
    "sqlite3Malloc",
    "PyMem_RawMalloc",
    "ztrymalloc_usable_internal",
    "__GI___strdup",
    "strndup",
    "_PyMem_RawWcsdup",
    "operator new(unsigned long)",
    "operator new[](unsigned long, std::nothrow_t const&)",
    "std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)",
    "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int const&)",
    "__gnu_cxx::new_allocator<int>::allocate(unsigned long)",
    "(anonymous namespace)::my_alloc(unsigned long)",
};

static const char *const others[] = {
    "parse_value",
    "main",
    "newspaper",
    "Tree::insert(std::string const&)",
    "void Tree::grow<std::allocator<int> >(Pool<Allocator>*)",
    "std_vector_of_mine",
    "Pool<std::allocator<char> >::take(unsigned long)",
    "",
};

int main(void) {
  int wrong = 0;
  for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
    if (!is_allocation_wrapper(wrappers[i]))
      wrong += printf("should be a wrapper: %s\n", wrappers[i]) > 0;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (is_allocation_wrapper(others[i]))
      wrong += printf("should not be a wrapper: %s\n", others[i]) > 0;
  return wrong > 0;
}
