/* SPDX-License-Identifier: GPL-2.0-only */
/* An instruction that Valgrind does not know: vpaddd of 512 bits. */
int main(void) {
  __asm__ volatile(".byte 0x62, 0xf1, 0x75, 0x48, 0xfe, 0xd0");
  return 0;
}
