/* SPDX-License-Identifier: MIT */
/* print_info [all | said PATH] <JSON: what `info` prints for people of such figures; or what it adds to them. */
#include "convert/inspect/info.h"

int main(int count, char **words) {
  json_t *figures = json_loadf(stdin, 0, NULL);
  if (!figures)
    return 1;
  if (count == 3) {
    info_add_said(figures, words[2]);
    json_dumpf(figures, stdout, 0);
  } else {
    info_print(figures, count > 1, stdout);
  }
  json_decref(figures);
  return 0;
}
