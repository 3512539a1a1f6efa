# SPDX-License-Identifier: Apache-2.0
# Configuration, messages, names, JSON, log, call stacks, timing, NVTX: one program a file.

LOG_TESTS := test_config test_json test_log test_log_fork test_log_host test_names test_message test_callstack \
             test_python_frames test_cost
LOG_TEST_OBJECTS := $(call shim_objects,config option cost json log log_counters log_header log_live message names own_file own_place) \
                    $(addprefix $(O)/tests/unit/,child.o log_fixture.o reader.o)
PROBE_OBJECTS := $(call shim_objects,callstack callstack_python python_frames symbols image locks) $(O)/tests/unit/callstack_probe.o

UNIT_TESTS += $(addprefix $(O)/tests/unit/,$(LOG_TESTS))

$(addprefix $(O)/tests/unit/,$(filter-out test_callstack test_python_frames,$(LOG_TESTS))): \
$(O)/tests/unit/%: $(O)/tests/unit/%.o $(LOG_TEST_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lpthread -ldl -lm

# Call stacks are taken from inside a shared object, as the shim is one.
$(O)/tests/unit/callstack_probe.so: $(PROBE_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $^ -ldl

$(O)/tests/unit/test_callstack: $(O)/tests/unit/test_callstack.o $(O)/tests/unit/child.o \
                                $(O)/tests/unit/callstack_probe.so
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -Wl,-rpath,'$$ORIGIN' -o $@ $^ -lcmocka

$(O)/tests/unit/test_python_frames: $(O)/tests/unit/test_python_frames.o $(call shim_objects,callstack_python python_frames)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka

UNIT_TESTS += $(O)/tests/unit/test_symbols
$(O)/tests/unit/test_symbols: $(O)/tests/unit/test_symbols.o $(call shim_objects,symbols image locks)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ldl

UNIT_TESTS += $(O)/tests/unit/test_rest
$(O)/tests/unit/test_rest: $(O)/tests/unit/test_rest.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka

UNIT_TESTS += $(O)/tests/unit/test_ledger
$(O)/tests/unit/test_ledger: $(O)/tests/unit/test_ledger.o $(call shim_objects,ledger config option cost message names own_file driver driver_table image locks resolve)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lpthread -lm

UNIT_TESTS += $(O)/tests/unit/test_timing
$(O)/tests/unit/test_timing: $(addprefix $(O)/tests/unit/,test_timing.o reader.o) $(call shim_objects,timing json names)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lm

# Where the toolkit has NVTX's header.
ifneq ($(wildcard $(CUDA)/include/nvtx3/nvToolsExt.h),)
UNIT_TESTS += $(O)/tests/unit/test_nvtx
endif
$(O)/tests/unit/test_nvtx.o: CPPFLAGS += -DTOOL='"$(abspath $(O))/tests/unit/nvtx_tool.so"'
$(O)/tests/unit/nvtx_tool.so: $(O)/tests/unit/nvtx_tool.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $^
$(O)/tests/unit/test_nvtx: $(addprefix $(O)/tests/unit/,test_nvtx.o child.o) $(call shim_objects,nvtx image locks) | $(O)/tests/unit/nvtx_tool.so
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ldl
