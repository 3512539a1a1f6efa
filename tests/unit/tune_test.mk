# SPDX-License-Identifier: Apache-2.0
# Tuning: forms of calls, the caches from both sides, the search over made-up times; and the whole
# shim on the simulated GPU with a cache.

TUNE_TESTS := $(addprefix $(O)/tests/unit/,test_call_form test_sweep test_tune_cache test_tuned test_kernel_cache)
UNIT_TESTS += $(TUNE_TESTS)
FORM_OBJECTS := $(call shim_objects,call_form tuned_file) $(KERNEL_CHOICE)

$(O)/tests/unit/test_call_form: $(call tool_objects,layout) $(FORM_OBJECTS)
$(O)/tests/unit/test_sweep: $(call tool_objects,sweep bootstrap)
$(O)/tests/unit/test_tune_cache: $(call tool_objects,cache folders) $(O)/tests/unit/child.o $(FORM_OBJECTS)
$(O)/tests/unit/test_tuned: $(call shim_objects,tuned user_file) $(LOG_TEST_OBJECTS) $(FORM_OBJECTS)
$(O)/tests/unit/test_kernel_cache: $(call shim_objects,kernel_cache user_file) $(O)/tests/unit/child.o $(FORM_OBJECTS)
$(TUNE_TESTS): %: %.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(sort $^) -lcmocka -lpthread -ldl -lm

# PRELOAD_TEST_PROGRAMS: it preloads the shim.
TUNED_APP := $(O)/tests/apps/test_tuned_app
ifeq ($(SAN),)
PRELOAD_TEST_PROGRAMS += $(TUNED_APP)
endif
$(TUNED_APP): $(addprefix $(O)/tests/,apps/test_tuned_app.o apps/zoo_run.o unit/child.o)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson -lm
$(TUNED_APP): | simgpu apps-sim $(SHIM_FOR_SIM) $(O)/fashim $(O)/sim/libfashim_kernels.so
