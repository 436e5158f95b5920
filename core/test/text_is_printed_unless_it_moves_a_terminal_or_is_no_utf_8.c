/* SPDX-License-Identifier: MIT */
/* Each character to U+30FF, and each sequence of bytes that is none; errors and names of signals. */
#include "core/base/error.h"

#include "core/test/check.h"

static bool moves(unsigned point) {
  static const unsigned ranges[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                                       {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (point >= ranges[i][0] && point <= ranges[i][1])
      return true;
  return false;
}

static const char *utf_8(unsigned point) {
  static char text[5];
  memset(text, 0, sizeof text);
  if (point < 0x80) {
    text[0] = (char)point;
  } else if (point < 0x800) {
    text[0] = (char)(0xc0 | point >> 6);
    text[1] = (char)(0x80 | (point & 63));
  } else {
    text[0] = (char)(0xe0 | point >> 12);
    text[1] = (char)(0x80 | (point >> 6 & 63));
    text[2] = (char)(0x80 | (point & 63));
  }
  return text;
}

static void shows(const char *text, const char *expected) {
  char shown[100], small[6], *printed;
  size_t bytes;
  CHECK(strcmp(escape_controls(shown, sizeof shown, text), expected) == 0, "%s, not %s", shown, expected);
  escape_controls(small, sizeof small, text); /* whole characters, as many as fit */
  CHECK(strlen(small) < sizeof small && strncmp(small, expected, strlen(small)) == 0, "%s of %s", small, expected);
  FILE *out = open_memstream(&printed, &bytes);
  print_escaped(out, text);
  fclose(out);
  CHECK(strcmp(printed, expected) == 0, "%s, not %s", printed, expected);
  free(printed);
}

static void characters_are_shown(void) {
  char text[20], expected[60];
  for (unsigned point = 1; point <= 0x30ff; point++) {
    const char *as_bytes = utf_8(point), *letter = strchr("\nn\rr\tt", (int)point);
    sprintf(text, "a%sb", as_bytes);
    if (!moves(point))
      strcpy(expected, text);
    else if (point < 0x80 && letter)
      sprintf(expected, "a\\%cb", letter[1]);
    else if (point < 0x100)
      sprintf(expected, "a\\x%02xb", point);
    else if (point < 0x800)
      sprintf(expected, "a\\x%02x\\x%02xb", as_bytes[0] & 255, as_bytes[1] & 255);
    else
      sprintf(expected, "a\\x%02x\\x%02x\\x%02xb", as_bytes[0] & 255, as_bytes[1] & 255, as_bytes[2] & 255);
    shows(text, expected);
  }
  shows("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
  shows("\xc1\xbf \xff \xe2\x82 \xf5\x80\x80\x80 \xc3", "\\xc1\\xbf \\xff \\xe2\\x82 \\xf5\\x80\\x80\\x80 \\xc3");
}

int main(void) {
  struct error error = {0};
  characters_are_shown();
  CHECK(error_at(&error, "a\nb", 7, "%d\t%s", 3, "x") == -1);
  CHECK(strcmp(error.text, "a\\nb: offset 7: 3\\tx") == 0 && error.place == 8, "%s", error.text);
  CHECK(strcmp(error.text + error.message, "3\\tx") == 0, "%s", error.text + error.message);
  CHECK(error_set(&error, "c", "later") == -1 && error_at(&error, "c", 1, "later") == -1);
  CHECK(strcmp(error.text, "a\\nb: offset 7: 3\\tx") == 0, "the first error stays: %s", error.text);
  error = (struct error){0};
  errno = ENOENT;
  CHECK(error_errno(&error, "p", "can't open") == -1);
  CHECK(strcmp(error.text, "p: can't open: No such file or directory") == 0 && error.place == 0, "%s", error.text);
  for (int number = -1; number < 70; number++) {
    const char *name = signal_name(number), *known = number > 0 && number < 32 ? sigabbrev_np(number) : NULL;
    CHECK(!name == !known && (!name || strcmp(name, known) == 0), "signal %d: %s", number, name ? name : "none");
  }
  return 0;
}
