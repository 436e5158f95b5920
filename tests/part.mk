# What crosses parts. The order model is explored by a plain test program; everything else here runs under pytest.
MODEL_SOURCES := $(addprefix tests/model/,order_model.c state_set.c)

$(eval $(call c_test,tests/test/ownership_tags_order_every_history.c,$(MODEL_SOURCES),))
