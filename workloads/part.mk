# SPDX-License-Identifier: MIT
# Each synthetic pattern is one file and one program, out/workloads/NAME; what lies beside their folders is their common main.
SYNTHETIC_COMMON  := $(wildcard workloads/synthetic/*.c)
synthetic_program  = $(eval ALL += $(OUT)/workloads/$(basename $(notdir $(1)))) \
  $(call c_link,$(OUT)/workloads/$(basename $(notdir $(1))),$(1) $(SYNTHETIC_COMMON),core/files $(WORKLOAD),-pthread -lz -ljansson)
$(foreach pattern,$(wildcard workloads/synthetic/*/*.c),$(call synthetic_program,$(pattern)))

# Programs with a switch for what `heaptape whatif` predicts (verify-fidelity --whatif).
$(call c_test_program,whatif_programs,workloads/whatif/whatif_programs.c,,-pthread)

# Preloaded: makes such a change in a program of somebody else's. -fno-builtin, as it defines malloc itself.
$(OUT)/pic/workloads/whatif/%.o: HT_CFLAGS += -fno-builtin -fexceptions
$(call c_test_library,test-lib/libapart.so,workloads/whatif/apart.c,-ldl)
