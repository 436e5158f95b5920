/* SPDX-License-Identifier: MIT */
// Operators that take and return their memory through helpers in another file (helpers.c), and a new-handler. Prints
// the calls that are the program's own, one "name count" a line. argv[1]: how the operators work.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" void *take_helper(size_t bytes), drop_helper(void *object), *resize_helper(void *object, size_t bytes);

#define KEPT __attribute__((noipa))

enum { HEADER = 16, TRACKED = 2048 };
static char way;
static void *tracked[TRACKED][2];
static size_t used_bytes;
static unsigned long news, deletes, mallocs, frees, failures;
static void *reserve, *left;
static bool leaves;
static thread_local bool ends;
static jmp_buf out;

static void track(void *object) {
  void *node = take_helper(24);
  mallocs++;
  for (auto &place : tracked)
    if (!place[0]) {
      place[0] = object;
      place[1] = node;
      return;
    }
  abort();
}

static void untrack(void *object) {
  for (auto &place : tracked)
    if (place[0] == object) {
      drop_helper(place[1]);
      frees++;
      place[0] = nullptr;
      return;
    }
  abort();
}

static void *take(size_t bytes) {
  void *object;
  if (leaves) {
    left = take_helper(bytes);
    longjmp(out, 1);
  }
  if (ends) {
    take_helper(bytes);
    syscall(SYS_exit, 0);
  }
  switch (way) {
  case 'h':
    object = take_helper(bytes + HEADER);
    return static_cast<char *>(object) + HEADER;
  case 't':
    object = take_helper(bytes);
    track(object);
    return object;
  case 'u':
    object = take_helper(bytes);
    used_bytes += malloc_usable_size(object);
    return object;
  case 'r':
    return resize_helper(nullptr, bytes);
  default:
    return take_helper(bytes);
  }
}

static void drop(void *object) {
  if (way == 't' && object)
    untrack(object);
  if (way == 'u')
    used_bytes -= malloc_usable_size(object);
  drop_helper(way == 'h' && object ? static_cast<char *>(object) - HEADER : object);
}

KEPT void *operator new(size_t bytes) {
  for (;;) {
    void *object = bytes >> 40 ? nullptr : take(bytes);
    if (object)
      return object;
    std::new_handler handler = std::get_new_handler();
    if (!handler)
      throw std::bad_alloc();
    handler();
  }
}
extern "C" void *new_helper(size_t bytes) {
  return operator new(bytes);
}
void *(*volatile through)(size_t) = new_helper;
KEPT void *operator new[](size_t bytes) {
  return way == 'n' ? through(bytes) : operator new(bytes);
}
KEPT void operator delete(void *object) noexcept {
  drop(object);
}
void (*volatile through_delete)(void *) = [](void *object) { operator delete(object); };
KEPT void operator delete[](void *object) noexcept {
  way == 'n' ? through_delete(object) : drop(object);
}
KEPT void operator delete(void *object, size_t) noexcept {
  drop(object);
}
KEPT void operator delete[](void *object, size_t) noexcept {
  operator delete[](object);
}

static void gives_reserve() {
  free(reserve);
  frees++;
  reserve = malloc(100);
  mallocs++;
  std::set_new_handler(nullptr);
}

static void *thread(void *last) {
  ends = !last;
  int *volatile one = new int(1);
  delete one;
  return nullptr;
}

static void run_thread(bool last) {
  pthread_t id;
  if (pthread_create(&id, nullptr, thread, last ? &reserve : nullptr) != 0 || pthread_join(id, nullptr) != 0)
    abort();
}

int main(int, char **argv) {
  way = argv[1][0];
  for (int i = 0; i < 1000; i++) {
    int *volatile array = new int[10 + i];
    int *volatile one = new int(i);
    news += 2;
    delete[] array;
    delete one;
    deletes += 2;
    void *volatile own = malloc(10 + i);
    free(own);
    mallocs++, frees++;
  }
  for (int i = 0; way == 'l' && i < 1000; i++) {
    leaves = true;
    if (setjmp(out) == 0)
      operator new(100);
    leaves = false;
    free(left);
    mallocs++, frees++;
  }
  for (int i = 0; way == 'e' && i < 5; i++)
    run_thread(false);
  if (way == 'e')
    run_thread(true);
  reserve = malloc(1000);
  mallocs++;
  std::set_new_handler(gives_reserve);
  volatile size_t huge = static_cast<size_t>(1) << 41;
  try {
    delete[] new char[huge];
  } catch (const std::bad_alloc &) {
    failures++;
  }
  free(reserve);
  frees++;
  printf("new %lu\ndelete %lu\nmalloc %lu\nfree %lu\nfailed %lu\n", news, deletes, mallocs, frees, failures);
  return 0;
}
