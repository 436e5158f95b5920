# SPDX-License-Identifier: MIT
# The costs of this machine's misses, faults and instructions: for the model of time (docs/methods/TIME_MODEL.md).
$(call c_components,observe/machine)
$(call c_program,machine,observe/machine/machine_main.c,observe/machine core/base,-ljansson -lm)
$(call c_test,observe/machine/test/chains_meet_every_line_once.c,,observe/machine core/base,-lm)
$(call c_test,observe/machine/test/quantiles_are_those_of_the_samples.c,,observe/machine core/base,-ljansson -lm)
$(call c_test,observe/machine/test/stepping_counts_every_instruction.c,,observe/machine core/base,-lm)
