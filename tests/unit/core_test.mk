# SPDX-License-Identifier: Apache-2.0
# The shim's core without a driver: interval algebra, GEMMs, rules, chains, meaning, sites, hazards, and
# recorded traces played to all of it. tests/unit/replay.c stands for what is below the core.

CORE_TESTS := test_range test_gemm test_replay
CORE_OBJECTS := $(addprefix $(O)/shim/,access.o chain.o config.o driver_context.o flow.o function.o \
                  gemm.o held.o json.o log.o log_header.o memory.o message.o names.o occurrence.o range.o \
                  record.o rules.o rule_reader.o rules_elementwise.o rules_softmax.o rules_neighbours.o session.o site.o site_record.o spec.o callstack.o callstack_python.o \
                  python_frames.o) $(K)/select.o
CORE_HELPERS := $(addprefix $(O)/tests/unit/,replay.o trace.o child.o)

UNIT_TESTS += $(addprefix $(O)/tests/unit/,$(CORE_TESTS))

$(O)/tests/unit/trace.o $(O)/tests/unit/test_replay.o $(O)/tests/unit/test_rules.o: \
  CPPFLAGS += -DTRACES='"$(abspath tests/traces)"'

$(addprefix $(O)/tests/unit/,$(CORE_TESTS)): $(O)/tests/unit/%: $(O)/tests/unit/%.o $(CORE_HELPERS) $(CORE_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lpthread -ldl -lm
