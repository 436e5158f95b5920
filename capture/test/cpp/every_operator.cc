/* SPDX-License-Identifier: MIT */
// Calls each form of operator new and delete once per round. With "fail", each round also requests more memory than there
// is from each form of new; then one new[] has a new-handler that frees and allocates before it fails. Prints what it
// caught.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

namespace {

constexpr std::size_t too_much = std::size_t(1) << 62;
constexpr std::align_val_t line{64};
void *volatile kept;
int calls_of_handler;
int caught, refused;

void succeed() {
  ::operator delete(::operator new(10));
  ::operator delete[](::operator new[](20));
  ::operator delete(::operator new(30, std::nothrow), std::nothrow);
  ::operator delete[](::operator new[](40, std::nothrow), std::nothrow);
  ::operator delete(::operator new(50, line), line);
  ::operator delete[](::operator new[](60, line), line);
  ::operator delete(::operator new(70, line, std::nothrow), line, std::nothrow);
  ::operator delete[](::operator new[](80, line, std::nothrow), line, std::nothrow);
  ::operator delete(::operator new(90), std::size_t(90));
  ::operator delete[](::operator new[](100), std::size_t(100));
  ::operator delete(::operator new(110, line), std::size_t(110), line);
  ::operator delete[](::operator new[](120, line), std::size_t(120), line);
}

template <typename Call> void fail(Call call) {
  try {
    kept = call();
    refused += kept == nullptr;
  } catch (const std::bad_alloc &) {
    caught++;
  }
}

void fail_each() {
  fail([] { return ::operator new(too_much); });
  fail([] { return ::operator new[](too_much); });
  fail([] { return ::operator new(too_much, std::nothrow); });
  fail([] { return ::operator new[](too_much, std::nothrow); });
  fail([] { return ::operator new(too_much, line); });
  fail([] { return ::operator new[](too_much, line); });
  fail([] { return ::operator new(too_much, line, std::nothrow); });
  fail([] { return ::operator new[](too_much, line, std::nothrow); });
}

// A handler's calls are the program's, not the operator's: they are recorded.
void make_room() {
  if (calls_of_handler++ < 3) {
    std::free(kept);
    kept = std::malloc(77);
    return;
  }
  std::string words(500, 'x');
  kept = &words[0];
  throw std::bad_alloc();
}

} // namespace

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  bool failing = argc > 2 && std::strcmp(argv[2], "fail") == 0;
  for (int round = 0; round < rounds; round++) {
    succeed();
    if (failing)
      fail_each();
  }
  if (failing) {
    kept = std::malloc(66);
    std::set_new_handler(make_room);
    fail([] { return ::operator new[](too_much); });
  }
  std::printf("%d caught, %d refused\n", caught, refused);
  return 0;
}
