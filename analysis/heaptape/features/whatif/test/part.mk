# SPDX-License-Identifier: MIT
# Programs with a switch for the changes that `heaptape whatif` predicts.
$(call c_test_program,whatif_programs,analysis/heaptape/features/whatif/test/whatif_programs.c,,-pthread)

# Preloaded: makes such a change in any program. -fno-builtin, as it defines malloc itself.
$(OUT)/pic/analysis/heaptape/features/whatif/test/%.o: HT_CFLAGS += -fno-builtin -fexceptions
$(call c_test_library,test-lib/libisolated.so,analysis/heaptape/features/whatif/test/isolated.c,-ldl)
