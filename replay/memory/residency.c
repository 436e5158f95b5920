/* SPDX-License-Identifier: MIT */
#include "replay/memory/residency.h"

#include "core/base/os.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEFT_OUT_LIMIT = 256, SCANNED_RANGES = 512, MAP_TEXT_BYTES = 64 << 10, PAGEMAP_ENTRIES = 4096 };

/* As in Linux 6.7's fs.h, which build machines may not have yet. */
struct scan_range {
  uint64_t start, end, categories;
};
struct scan_request {
  uint64_t size, flags, start, end, walk_end, ranges, range_count, max_pages;
  uint64_t inverted, all_of, any_of, returned;
};
#define SCAN_PAGES _IOWR('f', 16, struct scan_request)
enum { SCAN_FILE = 1 << 2, SCAN_PRESENT = 1 << 3, SCAN_SWAPPED = 1 << 4, SCAN_ZERO_PAGE = 1 << 5 };

/* Bits of an entry of /proc/self/pagemap. FILE: also anonymous memory that is shared. */
static const uint64_t PAGEMAP_PRESENT = (uint64_t)1 << 63, PAGEMAP_SWAPPED = (uint64_t)1 << 62,
                      PAGEMAP_FILE = (uint64_t)1 << 61;

static struct scan_range scanned[SCANNED_RANGES];

static const uint64_t ADDRESS_LIMIT = ((uint64_t)1 << 47) - 4096; /* the limit for programs that do not request more */

static enum residency_method method;
static int pagemap_fd = -1, maps_fd = -1;

static struct range { uint64_t first, last; } left_out[LEFT_OUT_LIMIT]; /* by rising address */
static unsigned left_out_count;

static void leave_out(uint64_t first, uint64_t last) {
  if (left_out_count == LEFT_OUT_LIMIT)
    return;
  unsigned at = left_out_count++;
  for (; at > 0 && left_out[at - 1].first > first; at--)
    left_out[at] = left_out[at - 1];
  left_out[at] = (struct range){first, last};
}

static int leave_out_module(struct dl_phdr_info *module, size_t bytes, void *unused) {
  (void)bytes;
  (void)unused;
  uint64_t os_page = os_page_bytes();
  for (int index = 0; index < module->dlpi_phnum; index++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[index];
    if (part->p_type == PT_LOAD)
      leave_out((module->dlpi_addr + part->p_vaddr) & ~(os_page - 1),
                (module->dlpi_addr + part->p_vaddr + part->p_memsz + os_page - 1) & ~(os_page - 1));
  }
  return 0;
}

/* One line of /proc/self/maps at a time. */
struct maps_reader {
  char text[MAP_TEXT_BYTES + 1];
  size_t at, end;
};

static struct maps_reader reader;

static void maps_open(void) {
  lseek(maps_fd, 0, SEEK_SET);
  reader.at = reader.end = 0;
}

/* The next line, without its newline; NULL at the end. A line is far shorter than the buffer. */
static char *maps_line(void) {
  for (;;) {
    char *line = reader.text + reader.at;
    char *newline = memchr(line, '\n', reader.end - reader.at);
    if (newline) {
      *newline = '\0';
      reader.at = (size_t)(newline + 1 - reader.text);
      return line;
    }
    memmove(reader.text, line, reader.end - reader.at);
    reader.end -= reader.at;
    reader.at = 0;
    ssize_t bytes = read(maps_fd, reader.text + reader.end, MAP_TEXT_BYTES - reader.end);
    if (bytes <= 0)
      return NULL;
    reader.end += (size_t)bytes;
  }
}

static uint64_t hexadecimal(const char **text) {
  uint64_t value = 0;
  for (;; (*text)++) {
    char digit = **text;
    if (digit >= '0' && digit <= '9')
      value = value << 4 | (uint64_t)(digit - '0');
    else if (digit >= 'a' && digit <= 'f')
      value = value << 4 | (uint64_t)(digit - 'a' + 10);
    else
      return value;
  }
}

/* "FIRST-LAST rw-p OFFSET DEVICE INODE  NAME"; rest: from " rw-p" on. Returns whether it is private and of no file. */
static bool parse_mapping(const char *line, struct range *range, const char **rest) {
  range->first = hexadecimal(&line);
  line++;
  range->last = hexadecimal(&line);
  *rest = line;
  return strlen(line) > 5 && line[4] == 'p' && strchr(line, '/') == NULL && strstr(line, "[v") == NULL;
}

enum residency_method residency_setup(bool allow_scan) {
  left_out_count = 0;
  method = RESIDENCY_NONE;
  dl_iterate_phdr(leave_out_module, NULL);
  if (pagemap_fd < 0)
    pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (maps_fd < 0)
    maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (pagemap_fd < 0 || maps_fd < 0)
    return method;
  maps_open();
  for (const char *line; (line = maps_line());) {
    struct range range;
    const char *rest;
    parse_mapping(line, &range, &rest);
    if (strstr(rest, "[stack]"))
      leave_out(range.first > (8u << 20) ? range.first - (8u << 20) : 0, range.last); /* the stack may grow downwards */
    else if (rest[4] == 's') /* the engine's tables, which stay: walking them took half of a memory pass */
      leave_out(range.first, range.last);
  }
  memset(scanned, 1, sizeof scanned); /* resident from now on, else it would later count as the allocator's */
  struct scan_request request = {.size = sizeof request,
                                 .end = os_page_bytes(),
                                 .ranges = (uint64_t)(uintptr_t)scanned,
                                 .range_count = 1,
                                 .all_of = SCAN_PRESENT,
                                 .returned = SCAN_PRESENT};
  method = allow_scan && ioctl(pagemap_fd, SCAN_PAGES, &request) >= 0 ? RESIDENCY_SCAN : RESIDENCY_PAGEMAP;
  return method;
}

/* Visits the parts of [first, last) that are not left out. */
static void visit_kept(uint64_t first, uint64_t last, void (*visit)(uint64_t address, uint64_t bytes)) {
  while (first < last) {
    uint64_t end = last;
    bool inside = false;
    for (unsigned index = 0; index < left_out_count; index++) {
      const struct range *range = &left_out[index];
      if (first >= range->first && first < range->last) {
        inside = true;
        end = range->last < last ? range->last : last;
        break;
      }
      if (range->first > first && range->first < end)
        end = range->first;
    }
    if (!inside)
      visit(first, end - first);
    first = end;
  }
}

/* An OS page that the kernel is moving to make room for huge pages is reported as swapped, although it is in memory all
   the time and counted in RssAnon. */
static bool is_moving(uint64_t address) {
  unsigned char in_memory = 0;
  return mincore((void *)(uintptr_t)address, os_page_bytes(), &in_memory) == 0 && (in_memory & 1);
}

static void visit_moving(uint64_t first, uint64_t last, void (*visit)(uint64_t address, uint64_t bytes)) {
  for (uint64_t os_page = os_page_bytes(); first < last; first += os_page)
    if (is_moving(first))
      visit(first, os_page);
}

static void scan(uint64_t first, uint64_t last, void (*visit)(uint64_t address, uint64_t bytes)) {
  struct scan_request request = {.size = sizeof request,
                                 .start = first,
                                 .end = last,
                                 .ranges = (uint64_t)(uintptr_t)scanned,
                                 .range_count = SCANNED_RANGES,
                                 .inverted = SCAN_FILE | SCAN_ZERO_PAGE,
                                 .all_of = SCAN_FILE | SCAN_ZERO_PAGE,
                                 .any_of = SCAN_PRESENT | SCAN_SWAPPED,
                                 .returned = SCAN_PRESENT};
  while (request.start < request.end) {
    int count = ioctl(pagemap_fd, SCAN_PAGES, &request);
    for (int index = 0; index < count; index++) {
      const struct scan_range *range = &scanned[index];
      if (range->categories & SCAN_PRESENT)
        visit(range->start, range->end - range->start);
      else
        visit_moving(range->start, range->end, visit);
    }
    if (count < 0 || request.walk_end <= request.start)
      return;
    request.start = request.walk_end;
  }
}

static void visit_by_scan(void (*visit)(uint64_t address, uint64_t bytes)) {
  uint64_t first = 0;
  for (unsigned index = 0; index < left_out_count; index++) {
    scan(first, left_out[index].first, visit);
    first = left_out[index].last > first ? left_out[index].last : first;
  }
  scan(first, ADDRESS_LIMIT, visit);
}

static void visit_mapping(struct range range, void (*visit)(uint64_t address, uint64_t bytes)) {
  static uint64_t entries[PAGEMAP_ENTRIES];
  uint64_t os_page = os_page_bytes(), run = 0;
  for (uint64_t address = range.first; address < range.last;) {
    uint64_t wanted = (range.last - address) / os_page;
    wanted = wanted < PAGEMAP_ENTRIES ? wanted : PAGEMAP_ENTRIES;
    ssize_t bytes = pread(pagemap_fd, entries, wanted * sizeof *entries, (off_t)(address / os_page * sizeof *entries));
    if (bytes <= 0)
      break;
    for (size_t index = 0; index < (size_t)bytes / sizeof *entries; index++, address += os_page) {
      uint64_t entry = entries[index];
      if (!(entry & PAGEMAP_FILE) && (entry & PAGEMAP_PRESENT || (entry & PAGEMAP_SWAPPED && is_moving(address)))) {
        run += os_page;
      } else if (run > 0) {
        visit_kept(address - run, address, visit);
        run = 0;
      }
    }
  }
  if (run > 0)
    visit_kept(range.last - run, range.last, visit);
}

static void visit_by_pagemap(void (*visit)(uint64_t address, uint64_t bytes)) {
  maps_open();
  for (const char *line; (line = maps_line());) {
    struct range range;
    const char *rest;
    if (parse_mapping(line, &range, &rest))
      visit_mapping(range, visit);
  }
}

void residency_visit(void (*visit)(uint64_t address, uint64_t bytes)) {
  if (method == RESIDENCY_SCAN)
    visit_by_scan(visit);
  else if (method == RESIDENCY_PAGEMAP)
    visit_by_pagemap(visit);
}
