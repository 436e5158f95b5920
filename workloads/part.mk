# SPDX-License-Identifier: MIT
# A program for each pattern, out/workloads/NAME, all of the same objects: main takes the pattern of the program's name.
SYNTHETIC_SOURCES := $(wildcard workloads/synthetic/*.c)
PATTERNS          := $(shell sed -n 's/^PATTERN(\(.*\))$$/\1/p' workloads/synthetic/patterns.def)
ALL += $(PATTERNS:%=$(OUT)/workloads/%)
$(foreach name,$(PATTERNS),$(call c_link,$(OUT)/workloads/$(name),$(SYNTHETIC_SOURCES),$(WORKLOAD),-pthread -lz -ljansson))

# Programs with a switch for the changes that `heaptape whatif` predicts (tests.bench.fidelity --whatif).
$(call c_test_program,whatif_programs,workloads/whatif/whatif_programs.c,,-pthread)

# Preloaded: makes such a change in any program. -fno-builtin, as it defines malloc itself.
$(OUT)/pic/workloads/whatif/%.o: HT_CFLAGS += -fno-builtin -fexceptions
$(call c_test_library,test-lib/libisolated.so,workloads/whatif/isolated.c,-ldl)
