# SPDX-License-Identifier: MIT
# Each synthetic pattern is one file and one program, out/workloads/NAME; the files beside their folders are the common main.
SYNTHETIC_COMMON  := $(wildcard workloads/synthetic/*.c)
synthetic_program  = $(eval ALL += $(OUT)/workloads/$(basename $(notdir $(1)))) \
  $(call c_link,$(OUT)/workloads/$(basename $(notdir $(1))),$(1) $(SYNTHETIC_COMMON),$(WORKLOAD),-pthread -lz -ljansson)
$(foreach pattern,$(wildcard workloads/synthetic/*/*.c),$(call synthetic_program,$(pattern)))

# Programs with a switch for the changes that `heaptape whatif` predicts (tests.bench.fidelity --whatif).
$(call c_test_program,whatif_programs,workloads/whatif/whatif_programs.c,,-pthread)

# Preloaded: makes such a change in any program. -fno-builtin, as it defines malloc itself.
$(OUT)/pic/workloads/whatif/%.o: HT_CFLAGS += -fno-builtin -fexceptions
$(call c_test_library,test-lib/libapart.so,workloads/whatif/apart.c,-ldl)
