/* Shaped like cfrac: arithmetic on numbers of a few digits, each a small block of its own. Every operation allocates
   its result and soon frees its operands, so blocks are tiny, die young, and mostly in last-in-first-out order. One
   thread. */
#include "workloads/synthetic/synthetic.h"

enum { MAX_DIGITS = 24, REGISTERS = 64 };

struct number {
  uint16_t digits;
  uint16_t digit[]; /* base 2^16, least first */
};

static uint64_t calls;

static struct number *number_new(unsigned digits) {
  size_t size_bytes = sizeof(struct number) + digits * sizeof(uint16_t);
  struct number *number = used(malloc(size_bytes), size_bytes);
  number->digits = (uint16_t)digits;
  calls++;
  return number;
}

static void number_free(struct number *number) {
  calls++;
  free(number);
}

static struct number *number_random(struct rng *rng) {
  struct number *number = number_new((unsigned)rng_between(rng, 1, MAX_DIGITS / 2));
  for (unsigned i = 0; i < number->digits; i++)
    number->digit[i] = (uint16_t)rng_next(rng);
  return number;
}

static struct number *add(const struct number *a, const struct number *b) {
  if (a->digits < b->digits)
    return add(b, a);
  struct number *sum = number_new(a->digits + 1u);
  uint32_t carry = 0;
  for (unsigned i = 0; i < a->digits; i++) {
    carry += a->digit[i] + (i < b->digits ? b->digit[i] : 0u);
    sum->digit[i] = (uint16_t)carry;
    carry >>= 16;
  }
  sum->digit[a->digits] = (uint16_t)carry;
  return sum;
}

static struct number *multiply(const struct number *a, const struct number *b) {
  struct number *product = number_new((unsigned)a->digits + b->digits);
  memset(product->digit, 0, product->digits * sizeof *product->digit);
  for (unsigned i = 0; i < a->digits; i++) {
    uint32_t carry = 0;
    for (unsigned j = 0; j < b->digits; j++) {
      carry += (uint32_t)a->digit[i] * b->digit[j] + product->digit[i + j];
      product->digit[i + j] = (uint16_t)carry;
      carry >>= 16;
    }
    product->digit[i + b->digits] = (uint16_t)carry;
  }
  return product;
}

/* The low digits, without leading zeros: keeps numbers from growing for ever. */
static struct number *reduce(const struct number *a) {
  unsigned digits = a->digits < MAX_DIGITS / 2 ? a->digits : MAX_DIGITS / 2;
  while (digits > 1 && a->digit[digits - 1] == 0)
    digits--;
  struct number *low = number_new(digits);
  memcpy(low->digit, a->digit, digits * sizeof *low->digit);
  return low;
}

/* x = (x * y + z) mod 2^k: three results, of which two are temporary. */
static struct number *step(const struct number *x, const struct number *y, const struct number *z) {
  struct number *product = multiply(x, y);
  struct number *sum = add(product, z);
  struct number *result = reduce(sum);
  number_free(product);
  number_free(sum);
  return result;
}

int main(int argc, char **argv) {
  uint64_t steps = 1000000, seed = 1, quiet = 0;
  const struct option_number options[] = {{"steps", &steps, "operations; each is six calls"},
                                          SYNTHETIC_COMMON_OPTIONS(seed, quiet)};
  synthetic_options(argc, argv, "bignum churn: many small, short-lived blocks in one thread", options);
  struct rng rng = rng_seed(seed, 0);
  struct number *number[REGISTERS];
  uint64_t start_ns = synthetic_now_ns();
  for (unsigned i = 0; i < REGISTERS; i++)
    number[i] = number_random(&rng);
  for (uint64_t i = 0; i < steps; i++) {
    struct number **x = &number[rng_below(&rng, REGISTERS)];
    struct number *result = step(*x, number[rng_below(&rng, REGISTERS)], number[rng_below(&rng, REGISTERS)]);
    number_free(*x);
    *x = result;
    if (result->digits < 2) {
      number_free(*x);
      *x = number_random(&rng);
    }
  }
  for (unsigned i = 0; i < REGISTERS; i++)
    number_free(number[i]);
  synthetic_report(calls, start_ns, quiet);
  return 0;
}
