# SPDX-License-Identifier: MIT
# A program whose saving by placement is known.
$(call c_test_program,planted,analysis/heaptape/features/place/test/programs/planted.c,,-pthread)
