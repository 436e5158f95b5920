# heaptape. `make help` lists the targets. Non-recursive: each folder's part.mk says what it builds, with the macros below.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:

OUT    ?= out
PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
OPT    ?= -O2 -g
CFLAGS ?=
PYTHON ?= python3
VENV   := .venv

HT_CFLAGS := -std=gnu11 -Wall -Wextra -Wmissing-prototypes -fvisibility=hidden -fno-plt -I. $(OPT) $(CFLAGS)

all: ## build everything into out/ (runs setup where something is missing)

# $(call c_objects,sources): their object files. $(call c_pic_objects,sources): the same for shared libraries.
c_objects     = $(patsubst %.c,$(OUT)/obj/%.o,$(1))
c_pic_objects = $(patsubst %.c,$(OUT)/pic/%.o,$(1))

# $(call c_program,name,sources,libraries): out/libexec/heaptape-name. $(call c_test,source,more sources,libraries): out/test/<part>/<name>,
# built by `make test` and run by tests/test_c_programs.py: exit 0 = passed, 77 = skipped (it says why), anything else = failed.
# $(call c_bench,source,more sources,libraries): out/bench/<name>, run by `make bench`.
define c_program
ALL += $(OUT)/libexec/heaptape-$(1)
$(OUT)/libexec/heaptape-$(1): $(call c_objects,$(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ $(3)
endef
define c_test
TESTS += $(OUT)/test/$(subst /test/,/,$(basename $(1)))
$(OUT)/test/$(subst /test/,/,$(basename $(1))): $(call c_objects,$(1) $(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ $(3)
endef
define c_bench
BENCHES += $(OUT)/bench/$(basename $(notdir $(1)))
$(OUT)/bench/$(basename $(notdir $(1))): $(call c_objects,$(1) $(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ $(3)
endef

include $(wildcard */part.mk)

$(OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -MMD -MP -c -o $@ $<
$(OUT)/pic/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -fPIC -MMD -MP -c -o $@ $<
-include $(shell find $(OUT)/obj $(OUT)/pic -name '*.d' 2>/dev/null)

all: $(ALL)
