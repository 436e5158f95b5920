#include "observe/valgrind/output.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_vki.h>

/* A program's name may hold any byte; JSON is UTF-8, so what is not plain ASCII becomes a question mark. */
static void write_name(VgFile *file, const HChar *name) {
  VG_(fprintf)(file, "\"");
  for (; *name; name++) {
    Bool plain = *name >= ' ' && *name <= '~' && *name != '"' && *name != '\\';
    VG_(fprintf)(file, "%c", plain ? *name : '?');
  }
  VG_(fprintf)(file, "\"");
}

VgFile *output_begin(const HChar *name, Int first, const HChar *mode) {
  SizeT bytes = VG_(strlen)(name) + 16;
  HChar *path = VG_(malloc)("output.path", bytes);
  Bool is_first = first == 0 || VG_(getpid)() == first;
  VG_(snprintf)(path, bytes, is_first ? "%s" : "%s.%d", name, VG_(getpid)());
  VgFile *file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, 0666);
  if (!file)
    VG_(umsg)("heaptape: %s: can't be written\n", path);
  VG_(free)(path);
  if (!file)
    return NULL;
  HChar program[1024];
  VG_(client_fname)(program, sizeof program, True);
  VG_(fprintf)(file, "{\"mode\": \"%s\", \"pid\": %d, \"parent\": %d, \"name\": ", mode, VG_(getpid)(), VG_(getppid)());
  write_name(file, VG_(basename)(program));
  return file;
}

void output_end(VgFile *file) {
  VG_(fprintf)(file, "}\n");
  VG_(fclose)(file);
}
