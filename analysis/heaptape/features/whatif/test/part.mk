# SPDX-License-Identifier: MIT
# A program with a switch for a change that `heaptape whatif` predicts.
$(call c_test_program,waves,analysis/heaptape/features/whatif/test/waves.c,,-pthread)
