$(call c_rooms,observe)
$(call c_program,observe,observe/observe_main.c,observe core/base,-ljansson)
