/* SPDX-License-Identifier: MIT */
#include "capture/recorder/command/describe.h"

#include "capture/recorder/command/beside.h"
#include "capture/recorder/processes/mapped_file.h"
#include "core/base/json.h"
#include "core/base/os.h"
#include "core/elf/elf_file.h"
#include "core/system/allocator_settings.h"
#include "core/system/process.h"
#include "core/trace/control_names.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* CPU time in the program per call, besides the recorder's own, which is measured: rounded up from the table
   "Optional columns" of docs/measurements/capture.md. */
enum { RECORDED_NS = 10, STAMPED_NS = 30, USABLE_NS = 15, LATENCY_NS = 65, STACK_NS = 60, LIBUNWIND_NS = 400 };

double describe_call_ns(const struct collector_settings *settings) {
  double ns = settings->flags & ATTACH_STAMP_EVERY ? STAMPED_NS : RECORDED_NS;
  ns += settings->flags & ATTACH_USABLE ? USABLE_NS : 0;
  ns += settings->flags & ATTACH_LATENCY ? LATENCY_NS : 0;
  if (settings->flags & ATTACH_STACKS)
    ns += settings->stack_unwind == UNWIND_LIBUNWIND ? LIBUNWIND_NS : STACK_NS;
  return ns;
}

void describe_first_path(const struct collector_settings *settings, char *path, size_t bytes) {
  if (settings->output)
    snprintf(path, bytes, "%s", settings->output);
  else
    snprintf(path, bytes, "%s.%d.tape", settings->name, settings->first_pid);
}

void describe_further_path(const struct collector_settings *settings, int pid, char *path, size_t bytes) {
  char base[4096];
  describe_first_path(settings, base, sizeof base);
  size_t length = strlen(base);
  if (length > 5 && strcmp(base + length - 5, ".tape") == 0)
    base[length - 5] = '\0';
  for (unsigned number = 1; number < 1000000; number++) {
    if (number == 1)
      snprintf(path, bytes, "%s.%d.tape", base, pid);
    else
      snprintf(path, bytes, "%s.%d.%u.tape", base, pid, number);
    if (settings->rotate_bytes)
      return;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    os_close(fd);
    if (fd >= 0 || errno != EEXIST)
      return;
  }
}

static const char *arch(void) {
#if defined(__x86_64__)
  return "x86_64";
#else
  return "aarch64";
#endif
}

/* comm has the name by which the process was started, cut to 15 bytes: the exec'ed path's base name, also that of a
   symlink (exe has the name of the file behind it) or a script. Where exe's name begins with it, exe's name is the
   complete one. */
void describe_program_name(const struct attach_request *request, char *name, size_t bytes) {
  int pid = request->pid;
  if (request->program[0]) {
    snprintf(name, bytes, "%.*s", (int)sizeof request->program - 1, request->program);
    return;
  }
  char program[4096], comm[64] = "";
  proc_program(pid, program, sizeof program);
  if (proc_read_file(pid, "comm", comm, sizeof comm))
    comm[strcspn(comm, "\n")] = '\0';
  const char *base = basename(program);
  snprintf(name, bytes, "%s", strncmp(base, comm, strlen(comm)) == 0 ? base : comm);
}

static bool has(const json_t *names, const char *name) {
  size_t index;
  json_t *item;
  json_array_foreach(names, index, item)
    if (strcmp(json_string_value(item), name) == 0)
      return true;
  return false;
}

/* Calls take with each variable of the environment with which the process was started, until it returns true. Returns
   false, with errno, if it can't be read. */
static bool each_variable(int pid, bool (*take)(const char *variable, void *context), void *context) {
  char path[64], *variable = NULL;
  size_t room = 0;
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  FILE *environment = fopen(path, "re");
  if (!environment)
    return false;
  errno = 0;
  while (getdelim(&variable, &room, '\0', environment) > 0 && !take(variable, context))
    ;
  int error = errno;
  fclose(environment);
  free(variable);
  errno = error;
  return error == 0;
}

static bool take_preloads(const char *variable, void *context) {
  static const char NAME[] = "LD_PRELOAD=";
  bool found = strncmp(variable, NAME, sizeof NAME - 1) == 0;
  if (found)
    *(char **)context = strdup(variable + sizeof NAME - 1);
  return found;
}

char *describe_preloads(int pid) {
  char *value = NULL;
  if (each_variable(pid, take_preloads, &value))
    errno = 0;
  return value;
}

/* One that is not UTF-8 is left out. */
static bool take_setting(const char *variable, void *context) {
  static const char TUNABLES[] = "GLIBC_TUNABLES";
  char whole[4096], setting[4096];
  /* glibc's start-up puts a zero behind each tunable in the environment's memory: the next begins a string. */
  if (strncmp(variable, "glibc.", 6) == 0) {
    const char *before = json_string_value(json_object_get(context, TUNABLES));
    snprintf(whole, sizeof whole, "%s=%s%s%s", TUNABLES, before ? before : "", before ? ":" : "", variable);
    variable = whole;
  }
  size_t bytes = allocator_setting(variable, setting, sizeof setting), name = strcspn(setting, "=");
  if (bytes > 0 && bytes < sizeof setting) {
    setting[name] = '\0';
    json_object_set_new(context, setting, json_string(setting + name + 1));
  }
  return false;
}

/* What of the environment sets an allocator up. NULL: it can't be read. */
static json_t *settings_of(int pid) {
  json_t *settings = json_object();
  if (each_variable(pid, take_setting, settings))
    return settings;
  json_decref(settings);
  return NULL;
}

/* When the kernel gives the process huge pages: "always", "madvise" or "never"; NULL: it does not say. */
static json_t *huge_pages_of(int pid) {
  char text[4096], mode[16];
  if (proc_read_file(pid, "status", text, sizeof text) && proc_status_number(text, "\nTHP_enabled:", 1) == 0)
    return json_string("never"); /* the process, or who started it, refuses them */
  int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
  bool found =
      proc_read(fd, text, sizeof text) && sscanf(text, "%*[^[][%15[a-z]]", mode) + sscanf(text, "[%15[a-z]]", mode) > 0;
  os_close(fd);
  return found ? json_string(mode) : NULL;
}

/* Is the library among those of LD_PRELOAD? There it may be a link, and a name without a folder, which is a soname. */
static bool is_preloaded(const char *preloads, const char *library) {
  const char *base = strrchr(library, '/') + 1;
  char entry[PATH_MAX], resolved[PATH_MAX];
  for (const char *at = preloads; at && *at; at += strspn(at, ": ")) {
    size_t length = strcspn(at, ": ");
    snprintf(entry, sizeof entry, "%.*s", (int)length, at);
    bool is_path = strchr(entry, '/');
    if (strcmp(entry, library) == 0 ||
        (is_path ? realpath(entry, resolved) && strcmp(resolved, library) == 0 : strncmp(base, entry, length) == 0))
      return true;
    at += length;
  }
  return false;
}

/* Base names of the libraries that the process has mapped by now, without preloaded ones. A replay loads them with
   every allocator; otherwise an allocator would be charged for libraries that the program has anyway, and one that it
   is linked with would seem to go where another is preloaded. NULL: they can't be read. */
static json_t *libraries(int pid) {
  struct proc_mapping mapping;
  FILE *maps = proc_open_maps(pid);
  if (!maps)
    return NULL;
  char *preloads = describe_preloads(pid);
  json_t *names = json_array();
  while (proc_maps_next(maps, &mapping)) {
    const char *slash = strrchr(mapping.path, '/'), *base = slash ? slash + 1 : "", *suffix = strstr(base, ".so");
    bool is_library = suffix && (strcmp(base + strlen(base) - 3, ".so") == 0 || strstr(base, ".so."));
    if (is_library && !has(names, base) && !is_preloaded(preloads, mapping.path))
      json_array_append_new(names, json_string(base)); /* a name that is not UTF-8 is left out */
  }
  fclose(maps);
  free(preloads);
  return names;
}

/* Opens the process's library of that base name: the file, or a link of that name beside the file, such as glibc's
   libc.so.6 to libc-2.31.so before 2.34. Returns -1 if there is none. */
static int open_library(int pid, const char *library) {
  struct proc_mapping mapping;
  size_t stem = strcspn(library, ".");
  int fd = -1;
  FILE *maps = proc_open_maps(pid);
  while (maps && fd < 0 && proc_maps_next(maps, &mapping)) {
    char *slash = strrchr(mapping.path, '/');
    if (!slash || strncmp(slash + 1, library, stem) != 0 || isalnum((unsigned char)slash[1 + stem]))
      continue;
    snprintf(slash + 1, sizeof mapping.path - (size_t)(slash + 1 - mapping.path), "%s", library);
    fd = mapped_file_open(pid, &mapping);
  }
  if (maps)
    fclose(maps);
  return fd;
}

/* Functions of jemalloc that malloc's API does not have, and that are not recorded. */
static const char *const of_jemalloc[] = {"mallocx", "rallocx", "xallocx", "dallocx", "sdallocx", NULL};

static bool is_among(const char *name, const char *const *names) {
  while (*names && strcmp(name, *names) != 0)
    names++;
  return *names;
}

/* Does it set up an allocator, or make it give memory back? Such calls before a late recording are not known. */
static bool is_set_up(const char *name) {
  static const char *const others[] = {"malloc_trim", "mi_option_enable", "mi_option_disable", NULL};
  int call = call_by_name(name);
  return (call >= 0 && control_sets_up((uint8_t)call)) || is_among(name, others);
}

/* What the program's file says by its symbols, of which no more are looked at than the largest programs have. */
enum { SYMBOLS_MOST = 1 << 25 };
struct program_symbols {
  bool calls_jemalloc, sets_up;
  uint32_t looked_at;
  uint64_t settings_at[JEMALLOC_SETTINGS]; /* addresses in the file; 0: it has no such variable */
  uint64_t mi_version;                     /* likewise the function */
  uint64_t entry;
};

/* A weak reference only finds out whether it is there. */
static bool look_at_symbol(void *context, const Elf64_Sym *symbol, const char *name) {
  struct program_symbols *program = context;
  bool is_here = symbol->st_shndx != SHN_UNDEF;
  if (!is_here && ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL) {
    program->calls_jemalloc |= is_among(name, of_jemalloc);
    program->sets_up |= is_set_up(name);
  }
  if (is_here && strcmp(name, "mi_version") == 0)
    program->mi_version = symbol->st_value;
  for (size_t i = 0; is_here && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && i < JEMALLOC_SETTINGS; i++)
    if (strcmp(name, jemalloc_settings[i].variable) == 0)
      program->settings_at[i] = symbol->st_value;
  return ++program->looked_at < SYMBOLS_MOST;
}

static struct program_symbols symbols_of_program(int pid) {
  struct program_symbols program = {0};
  struct elf_memory content;
  struct elf_file file;
  int fd = proc_open(pid, "exe");
  if (elf_map(fd, &content) && elf_file_read(&content, &file)) {
    program.entry = file.header.e_entry;
    elf_file_symbols(&content, &file, look_at_symbol, &program);
  }
  elf_unmap(&content);
  os_close(fd);
  return program;
}

/* Does any file that the process has mapped refer to such a function? One that has ended shows none: it may have. */
static bool objects_set_up(int pid) {
  struct program_symbols symbols = {0};
  bool shown = false;
  struct proc_mapping mapping;
  uint64_t last = 0;
  FILE *maps = proc_open_maps(pid);
  while (maps && !symbols.sets_up && symbols.looked_at < SYMBOLS_MOST && proc_maps_next(maps, &mapping)) {
    struct elf_memory content;
    struct elf_file file;
    shown = true;
    if (mapping.inode == 0 || mapping.inode == last || mapping.offset != 0)
      continue;
    last = mapping.inode;
    int fd = mapped_file_open(pid, &mapping);
    if (fd >= 0 && elf_map(fd, &content)) {
      if (elf_file_read(&content, &file))
        elf_file_symbols(&content, &file, look_at_symbol, &symbols);
      elf_unmap(&content);
    }
    os_close(fd);
  }
  if (maps)
    fclose(maps);
  return symbols.sets_up || !shown || symbols.looked_at >= SYMBOLS_MOST;
}

/* Reads what the variable at that address points to in the process's memory. It is empty where that can't be read. */
static void read_text_of(int memory, uint64_t address, char *text, size_t bytes) {
  uint64_t at;
  ssize_t count = -1;
  if (pread(memory, &at, sizeof at, (off_t)address) == sizeof at && at != 0)
    count = pread(memory, text, bytes - 1, (off_t)at);
  text[count > 0 ? count : 0] = '\0';
}

/* Puts what the program itself and the system set before what the environment does: jemalloc reads them in this
   order. */
static void add_jemalloc_settings(int pid, int memory, const char *allocator, const struct program_symbols *program,
                                  json_t *settings) {
  if (!settings || strncmp(allocator, "libc.", 5) == 0 || strncmp(allocator, "ld-musl-", 8) == 0)
    return;
  int auxiliary = proc_open(pid, "auxv");
  uint64_t bias = proc_auxiliary(auxiliary, AT_ENTRY) - program->entry;
  for (size_t i = 0; i < JEMALLOC_SETTINGS; i++) {
    const struct jemalloc_setting *setting = &jemalloc_settings[i];
    char parts[3][1024] = {"", "", ""}, link[PATH_MAX], whole[sizeof parts + 3] = "";
    uint64_t at = program->settings_at[i];
    if (at)
      read_text_of(memory, bias + at, parts[0], sizeof parts[0]);
    snprintf(link, sizeof link, "/proc/%d/root%s", pid, setting->link);
    ssize_t bytes = at || strstr(allocator, "jemalloc") ? readlink(link, parts[1], sizeof parts[1] - 1) : 0;
    parts[1][bytes > 0 ? bytes : 0] = '\0';
    const char *before = json_string_value(json_object_get(settings, setting->environment));
    snprintf(parts[2], sizeof parts[2], "%s", before ? before : "");
    for (size_t part = 0; part < 3; part++)
      if (parts[part][0])
        snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%s%s", *whole ? "," : "", parts[part]);
    if (*whole)
      json_object_set_new(settings, setting->environment, json_string(whole));
  }
  os_close(auxiliary);
}

/* mimalloc's, from its function's code (mov $209, %eax: 2.0.9; from 2.3 on 20300), as no text in it says it. */
static void mimalloc_version(int pid, int memory, const struct program_symbols *program, char *version, size_t bytes) {
  static const uint8_t branch_target[] = {0xf3, 0x0f, 0x1e, 0xfa};
  uint8_t code[16] = {0};
  uint32_t number = 0;
  int auxiliary = proc_open(pid, "auxv");
  uint64_t at = proc_auxiliary(auxiliary, AT_ENTRY) - program->entry + program->mi_version;
  ssize_t got = program->mi_version ? pread(memory, code, sizeof code, (off_t)at) : -1;
  const uint8_t *move = code + (memcmp(code, branch_target, sizeof branch_target) == 0 ? sizeof branch_target : 0);
  if (got == sizeof code && move[0] == 0xb8)
    memcpy(&number, move + 1, sizeof number);
  if (number >= 10000)
    snprintf(version, bytes, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
  else if (number >= 100)
    snprintf(version, bytes, "%u.%u.%u", number / 100, number / 10 % 10, number % 10);
  os_close(auxiliary);
}

/* A library's, or that of the allocator in a program; empty: it has none. linked: that allocator's name; NULL: none. */
struct build {
  struct stat file;
  const char *linked;
  char version[ELF_BUILD_ID_TEXT], id[ELF_BUILD_ID_TEXT];
};

static bool is_same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         memcmp(&a->st_mtim, &b->st_mtim, sizeof a->st_mtim) == 0 &&
         memcmp(&a->st_ctim, &b->st_ctim, sizeof a->st_ctim) == 0;
}

/* The last files are remembered, as nearly all processes have one C library, of which some 2 MB are searched. */
static const struct build *build_of(int fd, bool is_program) {
  static struct build known[4];
  static unsigned next;
  struct build found = {.linked = NULL};
  if (fstat(fd, &found.file) != 0)
    return NULL;
  for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
    if (is_same_file(&known[i].file, &found.file))
      return &known[i];
  struct elf_memory memory = elf_descriptor(&fd);
  struct elf_file file;
  if (!mapped_file_glibc_version(fd, found.version, sizeof found.version) && is_program)
    found.linked = mapped_file_linked_allocator(fd, found.version, sizeof found.version);
  if (!elf_file_read(&memory, &file) || !elf_file_build_id(fd, &file, found.id))
    found.id[0] = '\0';
  struct build *place = &known[next++ % (sizeof known / sizeof *known)];
  *place = found;
  return place;
}

/* Adds the version and the build id of the process's library of that base name, as far as they are known; of the
   program itself also which allocator is in it. */
static void add_build(json_t *info, int pid, int memory, const char *library, const struct program_symbols *program) {
  bool is_program = strcmp(library, json_string_value(json_object_get(info, "program"))) == 0;
  int fd = open_library(pid, library);
  const struct build *build = fd >= 0 ? build_of(fd, is_program) : NULL;
  char version[ELF_BUILD_ID_TEXT];
  snprintf(version, sizeof version, "%s", build ? build->version : "");
  if (build && build->linked)
    json_object_set_new(info, "linked", json_string(build->linked));
  if (build && build->linked && strcmp(build->linked, "mimalloc") == 0)
    mimalloc_version(pid, memory, program, version, sizeof version);
  if (version[0])
    json_object_set_new(info, "allocator_version", json_string(version));
  if (build && build->id[0])
    json_object_set_new(info, "allocator_build_id", json_string(build->id));
  os_close(fd);
}

char *describe_info(const struct collector_settings *settings, const struct attach_request *request,
                    const struct describe_clock *clock, const struct describe_past *past) {
  bool late = past->late;
  bool knows_past = !late && (!request->forked || (past->parent && !recorded_process_settings_unknown(past->parent)));
  char program[NAME_MAX + 1];
  describe_program_name(request, program, sizeof program);
  char allocator[sizeof request->allocator];
  memcpy(allocator, request->allocator, sizeof allocator);
  allocator[sizeof allocator - 1] = '\0';
  json_t *describe = settings->describe_json ? json_loads(settings->describe_json, 0, NULL) : NULL;
  uint64_t unix_ns = os_unix_ns();
  /* Opened first: it may execute a program of more rights meanwhile, of whose memory its own symbols must tell
     nothing. */
  int memory = proc_open(request->pid, "mem");
  struct program_symbols symbols = symbols_of_program(request->pid);
  json_t *lacks = json_array();
  if (!(settings->flags & ATTACH_USABLE) || request->no_usable_size)
    json_array_append_new(lacks, json_string("usable_size"));
  if (request->bypassed || symbols.calls_jemalloc)
    json_array_append_new(lacks, json_string("calls"));
  if (!knows_past && (symbols.sets_up || objects_set_up(request->pid)))
    json_array_append_new(lacks, json_string("settings_by_calls"));
  if (late)
    json_array_append_new(lacks, json_string("in_flight"));
  if (late || request->forked)
    json_array_append_new(lacks, json_string("start"));
  json_t *of_allocator = settings_of(request->pid);
  add_jemalloc_settings(request->pid, memory, allocator, &symbols, of_allocator);
  json_t *accesses = beside_calls() ? beside_calls()->info(settings) : NULL;
  json_t *info = json_pack(
      "{s:{s:s,s:f,s:I,s:I},s:s,s:s,s:o,s:i,s:i,s:I,s:o,s:I,s:s,s:o,s:o*,s:o*,s:o*,s:o*}", "clock", "kind",
      clock->counter ? "counter" : OS_CYCLES_KIND, "hz", clock->hz, "origin_stamp", (json_int_t)clock->origin_stamp,
      "origin_unix_ns", (json_int_t)unix_ns, "order", settings->flags & ATTACH_STAMP_EVERY ? "every" : "tags", "source",
      "heaptape-record 0.1", "program", json_text(program, sizeof program), "pid", request->pid, "parent_pid",
      request->parent_pid, "start_unix_ns", (json_int_t)unix_ns, "allocator", json_text(allocator, sizeof allocator),
      "os_page_bytes", (json_int_t)os_page_bytes(), "arch", arch(), "lacks", lacks, "describe", describe, "accesses",
      accesses, "libraries", libraries(request->pid), "settings", of_allocator);
  if (info && settings->touch_min_bytes != UINT64_MAX)
    json_object_set_new(info, "touched_parts", json_true());
  if (info) {
    json_object_set_new(info, "transparent_huge_pages", huge_pages_of(request->pid));
    json_object_set_new(info, "call_ns", json_real(describe_call_ns(settings)));
    cpu_set_t allowed;
    if (sched_getaffinity(request->pid, sizeof allowed, &allowed) == 0)
      json_object_set_new(info, "processors", json_integer(CPU_COUNT(&allowed)));
    struct proc_quota quota = proc_quota_open(request->pid);
    if (quota.processors > 0)
      json_object_set_new(info, "quota_processors", json_real(quota.processors));
    os_close(quota.stat_fd);
    if (past->parent)
      settings_made_describe(&past->parent->settings, info);
    add_build(info, request->pid, memory, allocator, &symbols);
  }
  os_close(memory);
  char *text = info ? json_dumps(info, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(info);
  return text;
}

bool describe_lacks(const char *info_json, const char *word) {
  json_t *info = json_loads(info_json, 0, NULL);
  bool lacks = has(json_object_get(info, "lacks"), word);
  json_decref(info);
  return lacks;
}

static void add_lack(json_t *lacks, const char *word) {
  if (json_is_array(lacks) && !has(lacks, word))
    json_array_append_new(lacks, json_string(word));
}

char *describe_file_info(const char *info_json, const struct describe_file *file) {
  json_t *info = json_loads(info_json, 0, NULL);
  if (!info)
    return NULL;
  char set[24];
  snprintf(set, sizeof set, "%016llx", (unsigned long long)file->set);
  json_object_set_new(info, "rotation",
                      json_pack("{s:s,s:I,s:I,s:I}", "set", set, "file", (json_int_t)file->number, "first",
                                (json_int_t)file->first, "oldest_kept", (json_int_t)file->oldest));
  if (file->origin_stamp) {
    json_t *clock = json_object_get(info, "clock"), *lacks = json_object_get(info, "lacks");
    json_set_count(clock, "origin_stamp", file->origin_stamp);
    json_set_count(clock, "origin_unix_ns", os_unix_ns());
    add_lack(lacks, "in_flight");
    add_lack(lacks, "start");
    if (recorded_process_settings_unknown(file->process) && objects_set_up(file->process->pid))
      add_lack(lacks, "settings_by_calls");
    json_object_del(info, "set_before");
    settings_made_describe(&file->process->settings, info);
  }
  char *text = json_dumps(info, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(info);
  return text;
}
