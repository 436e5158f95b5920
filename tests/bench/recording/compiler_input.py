# SPDX-License-Identifier: MIT
"""Text for a compiler: typical C (structures, lists, switches, loops), of any length."""

HEAD = """typedef unsigned long word;
struct node { struct node *next, *child; word key, size; char name[24]; };
void *allocate(word);
int print(const char *, ...);
"""
FUNCTIONS = """
static word hash_@(const char *text, word seed) {
  word h = seed ^ $u;
  for (; *text; text++) { h ^= (word)*text; h *= 2 * $u + 1; h ^= h >> ($ % 23 + 3); }
  return h;
}
struct node *insert_@(struct node **table, const char *name, word count) {
  word at = hash_@(name, count) % (7 * $);
  struct node *found = table[at];
  while (found && found->key != count)
    if (found->size > $u && found->child) found = found->child; else found = found->next;
  if (!found) {
    found = allocate(sizeof *found + $);
    found->next = table[at]; found->child = 0; found->key = count; found->size = @ % 50;
    for (word j = 0; j < sizeof found->name - 1 && name[j]; j++) found->name[j] = name[j];
    table[at] = found;
  }
  switch (found->size % 7) {
  case 0: found->size += $; break;
  case 1: found->size ^= count; break;
  case 2: if (count > $) found->size *= 3; break;
  case 3: for (word j = 0; j < count % 13; j++) found->size += hash_@(found->name, j); break;
  case 4: return found->child ? found->child : found;
  case 5: print("%s %lu", found->name, found->size); break;
  default: found->size--;
  }
  return found;
}
double sum_@(const double *left, const double *right, int n) {
  double total = $.5;
  for (int j = 0; j < n; j++) {
    total += left[j] * right[n - j - 1];
    if (total > 1e3 * $) total /= left[j] + $;
  }
  return total;
}
"""


def c_source(copies: int) -> str:
    """A translation unit of `copies` times three functions, no two alike."""
    return HEAD + "".join(
        FUNCTIONS.replace("@", str(copy)).replace("$", str(copy * 2654435761 % 97 + 3)) for copy in range(copies)
    )
