/* SPDX-License-Identifier: MIT */
#include "core/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A control character from U+0080 to U+009F? */
static bool is_c1(const char *text) {
  return (uint8_t)text[0] == 0xc2 && (uint8_t)text[1] >= 0x80 && (uint8_t)text[1] < 0xa0;
}

/* A mark of direction, or a separator of lines: U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069? They make a
   terminal show other words than those that are there. */
static bool turns_text(const unsigned char *text) {
  if (text[0] == 0xd8)
    return text[1] == 0x9c;
  if (text[0] != 0xe2)
    return false;
  return (text[1] == 0x80 && ((text[2] >= 0x8e && text[2] <= 0x8f) || (text[2] >= 0xa8 && text[2] <= 0xae))) ||
         (text[1] == 0x81 && text[2] >= 0xa6 && text[2] <= 0xa9);
}

/* Bytes of the printable character at text, 0 if it is a control character (C0, DEL, C1, direction) or not UTF-8. */
static size_t printable_bytes(const unsigned char *text) {
  if (*text < 0x80)
    return *text >= 0x20 && *text != 0x7f;
  size_t bytes = *text >= 0xc2 && *text < 0xe0 ? 2 : *text >= 0xe0 && *text < 0xf0 ? 3 : *text >= 0xf0 ? 4 : 0;
  if (*text > 0xf4 || (*text == 0xc2 && text[1] < 0xa0) || turns_text(text))
    return 0;
  for (size_t i = 1; i < bytes; i++)
    if ((text[i] & 0xc0) != 0x80)
      return 0;
  return bytes;
}

/* Puts the next character, or what stands for it, into shown. Returns how many bytes of text it took. */
static size_t escape_one(char shown[8], const char *text) {
  size_t bytes = printable_bytes((const unsigned char *)text);
  const char *letter = strchr("\nn\rr\tt", *text);
  if (bytes)
    memcpy(shown, text, bytes);
  else if (letter)
    sprintf(shown, "\\%c", letter[1]);
  else
    sprintf(shown, "\\x%02x", is_c1(text) ? (uint8_t)text[1] : (uint8_t)*text);
  if (bytes)
    shown[bytes] = '\0';
  return bytes ? bytes : is_c1(text) ? 2 : 1;
}

const char *escape_controls(char *to, size_t room, const char *text) {
  size_t used = 0;
  while (*text) {
    char shown[8];
    text += escape_one(shown, text);
    if (used + strlen(shown) >= room)
      break;
    memcpy(to + used, shown, strlen(shown));
    used += strlen(shown);
  }
  to[used] = '\0';
  return to;
}

void print_escaped(FILE *out, const char *text) {
  for (char shown[8]; *text; fputs(shown, out))
    text += escape_one(shown, text);
}

/* Sets the text: where, which may have any characters, and the message. */
static void error_fill(struct error *error, const char *where, const char *format, va_list arguments) {
  char text[sizeof error->text];
  escape_controls(error->text, sizeof error->text, where);
  error->message = strlen(error->text);
  vsnprintf(text, sizeof text, format, arguments);
  escape_controls(error->text + error->message, sizeof error->text - error->message, text);
}

int error_at(struct error *error, const char *path, uint64_t offset, const char *format, ...) {
  if (error->text[0])
    return -1;
  char where[sizeof error->text];
  snprintf(where, sizeof where, "%s: offset %" PRIu64 ": ", path, offset);
  error->place = offset + 1;
  va_list arguments;
  va_start(arguments, format);
  error_fill(error, where, format, arguments);
  va_end(arguments);
  return -1;
}

int error_set(struct error *error, const char *path, const char *format, ...) {
  if (error->text[0])
    return -1;
  char where[sizeof error->text];
  snprintf(where, sizeof where, "%s: ", path);
  va_list arguments;
  va_start(arguments, format);
  error_fill(error, where, format, arguments);
  va_end(arguments);
  return -1;
}

int error_errno(struct error *error, const char *path, const char *what) {
  const char *reason = strerror(errno);
  return error_set(error, path, "%s: %s", what, reason);
}

const char *signal_name(int number) {
#define NAME(name) [SIG##name] = #name
  static const char *const names[] = {
      NAME(HUP),  NAME(INT),    NAME(QUIT), NAME(ILL),   NAME(TRAP), NAME(ABRT), NAME(BUS),  NAME(FPE),
      NAME(KILL), NAME(USR1),   NAME(SEGV), NAME(USR2),  NAME(PIPE), NAME(ALRM), NAME(TERM), NAME(STKFLT),
      NAME(CHLD), NAME(CONT),   NAME(STOP), NAME(TSTP),  NAME(TTIN), NAME(TTOU), NAME(URG),  NAME(XCPU),
      NAME(XFSZ), NAME(VTALRM), NAME(PROF), NAME(WINCH), NAME(POLL), NAME(PWR),  NAME(SYS)};
#undef NAME
  return number > 0 && (size_t)number < sizeof names / sizeof *names ? names[number] : NULL;
}
