/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/common/output.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_vki.h>

/* A program's name may hold any byte; JSON is UTF-8, so bytes that are not plain ASCII become question marks. */
static void write_name(VgFile *file, const HChar *name) {
  VG_(fprintf)(file, "\"");
  for (; *name; name++) {
    Bool plain = *name >= ' ' && *name <= '~' && *name != '"' && *name != '\\';
    VG_(fprintf)(file, "%c", plain ? *name : '?');
  }
  VG_(fprintf)(file, "\"");
}

enum { EXEC_LIMIT = 1 << 20 };

static HChar *written_before_exec; /* the file's path; NULL: none */

/* O_EXCL: a process that execs one program after another has a new Valgrind each time, which knows only the files of
   earlier ones. */
static VgFile *open_before_exec(HChar *path, SizeT bytes, const struct output *output) {
  for (Int number = 1; number < EXEC_LIMIT; number++) {
    VG_(snprintf)(path, bytes, "%s.%d.%d", output->name, VG_(getpid)(), number);
    SysRes opened = VG_(open)(path, VKI_O_CREAT | VKI_O_EXCL | VKI_O_WRONLY, 0666);
    if (!sr_isError(opened)) {
      VG_(close)((Int)sr_Res(opened));
      return VG_(fopen)(path, VKI_O_TRUNC | VKI_O_WRONLY, 0666);
    }
    if (sr_Err(opened) != VKI_EEXIST)
      break;
  }
  return NULL;
}

static VgFile *open_at_end(HChar *path, SizeT bytes, const struct output *output) {
  Bool is_first = output->first == 0 || VG_(getpid)() == output->first;
  VG_(snprintf)(path, bytes, is_first ? "%s" : "%s.%d", output->name, VG_(getpid)());
  return VG_(fopen)(path, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, 0666);
}

void output_forget_exec(void) {
  if (!written_before_exec)
    return;
  VG_(unlink)(written_before_exec);
  VG_(free)(written_before_exec);
  written_before_exec = NULL;
}

VgFile *output_begin(const struct output *output) {
  SizeT bytes = VG_(strlen)(output->name) + 32;
  HChar *path = VG_(malloc)("output.path", bytes);
  VgFile *file = output->before_exec ? open_before_exec(path, bytes, output) : open_at_end(path, bytes, output);
  if (!file)
    VG_(umsg)("heaptape: %s: can't be written\n", path);
  if (file && output->before_exec)
    written_before_exec = path;
  else
    VG_(free)(path);
  if (!file)
    return NULL;
  HChar program[1024];
  VG_(client_fname)(program, sizeof program, True);
  VG_(fprintf)
  (file, "{\"mode\": \"%s\", \"pid\": %d, \"parent\": %d, \"name\": ", output->mode, VG_(getpid)(), VG_(getppid)());
  write_name(file, VG_(basename)(program));
  return file;
}

void output_counted(VgFile *file, struct counted counted) {
  VG_(fprintf)
  (file, "\"instructions\": %llu, \"string_instructions\": %llu, \"string_bytes\": %llu", counted.instructions,
   counted.strings, counted.string_bytes);
}

void output_end(VgFile *file) {
  VG_(fprintf)(file, "}\n");
  VG_(fclose)(file);
}
