/* SPDX-License-Identifier: MIT */
/* Gives each file named on the command line to a libFuzzer target, so that the seeds are tried in every test run, by
   either compiler and without libFuzzer. Prints the file's name first: it is the last line when the target dies. */
#include "core/test/usual.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
      fprintf(stderr, "can't read %s\n", argv[i]);
      return 2;
    }
    size_t count = (size_t)ftell(file);
    uint8_t *bytes = malloc(count + 1);
    rewind(file);
    if (!bytes || fread(bytes, 1, count, file) != count)
      return 2;
    fclose(file);
    printf("%s\n", argv[i]);
    fflush(stdout);
    LLVMFuzzerTestOneInput(bytes, count);
    free(bytes);
  }
  return 0;
}
