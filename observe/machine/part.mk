# SPDX-License-Identifier: MIT
# The costs of this machine's misses, faults and instructions: for the model of time (docs/methods/TIME_MODEL.md).
$(call c_components,observe/machine)
$(call c_program,machine,observe/machine/machine_main.c,observe/machine core/command core/base,-ljansson -lm -ldl)
# Loaded lazily unless asked otherwise, and calls through the procedure linkage table.
MACHINE_LIBRARY := $(OUT)/lib/libheaptape-machine-loads.so
ALL += $(MACHINE_LIBRARY)
$(MACHINE_LIBRARY): observe/machine/loaded/library.c
	$(start)
	$(CC) -std=gnu11 -Wall -Wextra $(WERROR) -O1 -fPIC -fplt -shared -s -Wl,-z,lazy -o $@ $<

$(call c_test,observe/machine/test/chains_meet_every_line_once.c,,observe/machine core/base,-lm -ldl)
$(call c_test,observe/machine/test/quantiles_are_those_of_the_samples.c,,observe/machine core/base,-ljansson -lm -ldl)
$(call c_test,observe/machine/test/stepping_counts_every_instruction.c,,observe/machine core/base,-lm -ldl)
