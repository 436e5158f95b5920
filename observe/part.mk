$(call c_components,observe)
$(call c_program,observe,observe/observe_main.c,observe core/valgrind core/base,-ljansson)
include observe/valgrind/part.mk
