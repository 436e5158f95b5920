# SPDX-License-Identifier: MIT
$(call c_components,observe)
$(call c_program,observe,observe/observe_main.c $(wildcard observe/simulate.c),observe core/command core/system core/base,-ljansson)
$(call c_test,observe/test/observer_waits_for_its_next_sample.c,,observe core/system core/base,)
$(call c_test,observe/test/a_program_that_executes_late_has_its_own_name.c,,observe core/system core/base,)
include observe/machine/part.mk observe/valgrind/part.mk
