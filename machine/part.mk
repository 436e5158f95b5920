# SPDX-License-Identifier: MIT
# The costs of this machine's misses, faults and instructions: for the model of time (docs/methods/TIME_MODEL.md).
$(call c_components,machine)
$(call c_program,machine,machine/machine_main.c,machine core/base,-ljansson -lm)
$(call c_test,machine/test/chains_meet_every_line_once.c,,machine core/base,-lm)
$(call c_test,machine/test/quantiles_are_those_of_the_samples.c,,machine core/base,-lm)
$(call c_test,machine/test/stepping_counts_every_instruction.c,,machine core/base,-lm)
