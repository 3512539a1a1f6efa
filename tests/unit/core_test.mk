# SPDX-License-Identifier: Apache-2.0
# The shim's core without a driver: interval algebra, GEMMs, rules, chains, meaning, sites, hazards, and
# recorded traces played to all of it. tests/unit/below.c stands for what is below the core.

CORE_TESTS := test_range test_gemm test_rules test_chain test_spec test_spec_masks test_site test_held test_window test_replay
CORE_BELOW := blas blas_library compare driver_table fused image preload resolve scratch thunk

CORE_OBJECTS := $(patsubst shim/%.c,$(O)/shim/%.o,$(filter-out shim/hook_% $(CORE_BELOW:%=shim/%.c),$(wildcard shim/*.c))) \
                $(K)/select.o
CORE_HELPERS := $(addprefix $(O)/tests/unit/,below.o core.o trace.o replay.o child.o)

$(addprefix $(O)/tests/unit/,test_spec test_spec_masks): $(O)/tests/unit/spec_fixture.o
UNIT_TESTS += $(addprefix $(O)/tests/unit/,$(CORE_TESTS))

$(O)/tests/unit/trace.o: CPPFLAGS += -DTRACES='"$(abspath tests/traces)"'

$(addprefix $(O)/tests/unit/,$(CORE_TESTS)): $(O)/tests/unit/%: $(O)/tests/unit/%.o $(CORE_HELPERS) $(CORE_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lpthread -ldl -lm
