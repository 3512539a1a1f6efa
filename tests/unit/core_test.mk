# SPDX-License-Identifier: Apache-2.0
# The shim's core without a driver: interval algebra, GEMMs, rules, chains, meaning, sites, hazards, and
# recorded traces played to all of it. tools/replay/below.c stands for what is below the core.

CORE_TESTS := test_halves test_rest_turns test_driver_context test_ahead test_late test_memory test_range test_gemm test_rules test_chain test_chain_sign test_spec test_spec_broadcast test_spec_f32 test_spec_masks test_spec_order test_spec_rows test_verdict test_roundings test_fit test_made_bias test_site test_openers test_held test_held_inputs test_outline test_pitched test_snapshot test_exit test_copies test_casts test_window test_replay test_catalogue test_shadow test_graph test_graph_proof test_rules_user test_prepared test_looks test_relayout test_record test_delivery test_rules_blocks test_rules_hand test_rules_engines test_rules_between test_rules_cupy test_grouped test_image_rows test_operand_rows test_library test_function test_budget test_comb test_graph_making test_graph_child test_graph_row test_built test_extent
CORE_HELPERS := $(addprefix $(O)/tests/unit/,core.o chain_valid.o replay.o child.o) $(addprefix $(O)/tools/replay/,below.o below_driver.o guess.o feed.o trace.o) $(addprefix $(O)/tools/,read/packed_file.o base/progress.o base/safe_text.o)

$(addprefix $(O)/tests/unit/,test_chain_sign test_spec test_spec_broadcast test_spec_f32 test_spec_masks test_spec_order test_spec_rows test_made_bias test_rules_engines test_rules_cupy): $(O)/tests/unit/spec_fixture.o
$(addprefix $(O)/tests/unit/,test_rules_blocks test_rules_hand): $(O)/tests/unit/block.o
$(addprefix $(O)/tests/unit/,test_rules_engines test_rules_between test_rules_cupy): $(O)/tests/unit/rule_op.o
UNIT_TESTS += $(addprefix $(O)/tests/unit/,$(CORE_TESTS))

$(O)/tests/unit/test_catalogue: $(addprefix $(O)/tests/unit/,meaning.o reader.o)
$(O)/tests/unit/test_replay.o: CPPFLAGS += -DODD_TRACES='"$(abspath tests/readers/traces)"'
$(O)/tests/unit/replay.o $(O)/tests/unit/test_catalogue.o: CPPFLAGS += -DTRACES='"$(abspath tests/traces)"'
$(O)/tests/unit/test_catalogue.o: CPPFLAGS += -DREFERENCE='"$(abspath tests/gpu/reference/catalogue.json)"'
$(O)/tests/unit/test_rules_blocks.o: CPPFLAGS += -DKERNEL_BLOCKS='"$(abspath tests/unit/kernel_blocks.trace.gz)"'
$(O)/tests/unit/test_grouped.o: CPPFLAGS += -DMOE_EXPERTS='"$(abspath tests/unit/moe_experts.trace.gz)"'

$(addprefix $(O)/tests/unit/,$(CORE_TESTS)): $(O)/tests/unit/%: $(O)/tests/unit/%.o $(CORE_HELPERS) $(CORE_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lpthread -ldl -lm

UNIT_TESTS += $(O)/tests/unit/test_scratch
$(O)/tests/unit/test_scratch: $(O)/tests/unit/test_scratch.o $(call shim_objects,scratch)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka
