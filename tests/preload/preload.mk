# SPDX-License-Identifier: Apache-2.0
# Tests of the interposition layer. Each program finds what it needs beside itself and sets its own
# preload, so `make preload-tests && $(O)/tests/preload/test_x` is all it takes.

PRELOAD_DIR := $(O)/tests/preload
SIM_LIBRARIES_TESTED := $(addprefix $(O)/simgpu/,libcuda.so.1 libcublas.so.12 libcublas.so.13)

# The layer alone: everything of the shim that flow.h does not hide.
INTERPOSITION := bypass config cost gemm message names option own_file image locks driver resolve preload driver_table hook_table thunk hook_cublas hook_cublaslt \
  library operands hook_library hook_cudnn hook_cudnn_backend cudnn_graph cudnn_tensor cudnn_attributes hook_nccl hook_cufft fft_plan \
  hook_cusolver hook_cusparse library_handle library_entry \
  hook_launch hook_copy hook_fill copy_box hook_memory hook_shared hook_stream hook_graph hook_module hook_procaddress \
  kernel_code kernel_names kernel_table kernel_layout kernel_code_cubin kernel_code_follows kernel_code_made kernel_code_ptx kernel_code_image unpack_lz4 unpack_zstd unpacked zstd_tables \
  preload_entry thunk_entry
PROBE_OBJECTS := $(call shim_objects,$(INTERPOSITION)) $(PRELOAD_DIR)/probe_flow.o

# A sanitizer's runtime is one more library in the process, with functions of libc's, and takes no RTLD_DEEPBIND.
PRELOAD_TEST_NAMES    := test_loader test_ops test_shared test_modules test_blas test_blaslt test_library test_library_cudnn \
  test_library_words $(if $(SAN),,test_tables test_inert test_thunk test_bypass)
PRELOAD_TEST_PROGRAMS := $(PRELOAD_TEST_NAMES:%=$(PRELOAD_DIR)/%)
STANDINS := $(addprefix $(PRELOAD_DIR)/standin/lib,cudnn.so.8 cudnn.so.9 nccl.so.2 cufft.so.11 cusparse.so.12 \
  cusolver.so.12)
PRELOAD_TEST_LIBRARIES := $(PRELOAD_DIR)/libprobe.so $(PRELOAD_DIR)/fake/libcuda.so.1 \
  $(addprefix $(PRELOAD_DIR)/,libplugin.so libplugin_next.so libasker.so libcudnn_asker.so libstub.so libuser12.so libuser13.so libuser_mute.so \
    libuser_cudnn8.so libuser_cudnn9.so) $(STANDINS)

.PHONY: preload-tests
preload-tests: $(PRELOAD_TEST_PROGRAMS)

ifneq ($(findstring address,$(SAN)),)
CFLAGS_harness     += -DSANITIZER='"$(shell $(CC) -print-file-name=libasan.so):"'
endif
CFLAGS_probe_flow  += -fvisibility=hidden
CFLAGS_test_tables += -DCUDA_STUB='"$(CUDA)/lib64/stubs/libcuda.so"'
CFLAGS_plugin      += -fno-optimize-sibling-calls
CFLAGS_stub        += -fno-optimize-sibling-calls -fsemantic-interposition
CFLAGS_asker       += -fno-optimize-sibling-calls
CFLAGS_user        += -fno-optimize-sibling-calls
CFLAGS_library_user += -fno-optimize-sibling-calls
CFLAGS_fake_driver += -fno-builtin

$(PRELOAD_TEST_PROGRAMS): %: %.o $(PRELOAD_DIR)/harness.o $(PRELOAD_TEST_LIBRARIES) $(O)/libfashim.so $(SHIM_FOR_SIM) $(SIM_LIBRARIES_TESTED)
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(LDFLAGS) -lcmocka -ldl -lpthread
$(addprefix $(PRELOAD_DIR)/,test_ops test_shared): $(PRELOAD_DIR)/ops_fixture.o
$(addprefix $(PRELOAD_DIR)/,test_blas test_blaslt): $(PRELOAD_DIR)/blas_fixture.o
$(addprefix $(PRELOAD_DIR)/,test_library test_library_cudnn): $(PRELOAD_DIR)/library_fixture.o

$(PRELOAD_DIR)/test_loader: private LDFLAGS += -rdynamic
$(PRELOAD_DIR)/test_modules: | apps-sim
$(PRELOAD_DIR)/test_modules.o: CPPFLAGS += -DBUILD_FOLDER='"$(abspath $(O))"'

$(PRELOAD_DIR)/libprobe.so: $(PROBE_OBJECTS) $(SHIM_MAP)
	$(call say,LD,$@)
	$(Q)sed 's/dlsym;/dlsym; probe;/' $(SHIM_MAP) >$(PRELOAD_DIR)/probe.map
	$(Q)$(CC) -shared -o $@ $(PROBE_OBJECTS) $(LDFLAGS) -Wl,--version-script=$(PRELOAD_DIR)/probe.map \
	  -Wl,-Bsymbolic -Wl,-z,defs,-z,relro,-z,now

$(PRELOAD_DIR)/fake/libcuda.so.1: $(PRELOAD_DIR)/fake_driver.o
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o $@ $<

$(PRELOAD_DIR)/plugin_next.o: tests/preload/plugin.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -DPLUGIN_NEXT $(CFLAGS) -fPIC -c -o $@ $<
$(PRELOAD_DIR)/libplugin_next.so: $(PRELOAD_DIR)/plugin_next.o
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -o $@ $<
$(PRELOAD_DIR)/libplugin.so: $(PRELOAD_DIR)/plugin.o $(PRELOAD_DIR)/libplugin_next.so
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -Wl,--no-as-needed -o $@ $^

# Others that stand between a program and the driver.
WRAPPERS := $(foreach w,asks finds overrides,$(PRELOAD_DIR)/libwrapper_$(w).so)
CPPFLAGS_wrapper_asks      := -DASKS_DLSYM
CPPFLAGS_wrapper_overrides := -DOVERRIDES_DLSYM
$(WRAPPERS): $(PRELOAD_DIR)/lib%.so: tests/preload/wrapper.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CPPFLAGS_$*) $(CFLAGS) -fPIC -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $< -ldl

$(addprefix $(PRELOAD_DIR)/,libasker.so libcudnn_asker.so): $(PRELOAD_DIR)/asker.o
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -o $@ $< -ldl

# A program's own stubs for a libcublas that it loads late, and two users of differing libcublas.
$(PRELOAD_DIR)/libstub.so: $(PRELOAD_DIR)/stub.o
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -o $@ $< -ldl
$(addprefix $(PRELOAD_DIR)/,libuser12.so libuser13.so): $(PRELOAD_DIR)/libuser%.so: $(PRELOAD_DIR)/user.o $(SIM_LIBRARIES_TESTED)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN/../../simgpu' -o $@ $< \
	  $(O)/simgpu/libcublas.so.$* $(O)/simgpu/libcublasLt.so.$*

# One in which nothing can be found: all its symbols are imports, and its hash table is empty.
$(PRELOAD_DIR)/libuser_mute.so: $(PRELOAD_DIR)/user.o $(SIM_LIBRARIES_TESTED)
	$(Q)printf '{ local: *; };\n' >$(@:.so=.map)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(@:.so=.map) \
	  -Wl,-rpath,'$$ORIGIN/../../simgpu' -o $@ $< $(O)/simgpu/libcublas.so.13 $(O)/simgpu/libcublasLt.so.13

# Stand-ins for other GPU libraries, all of one source, and two users of differing cuDNNs.
$(STANDINS): $(addprefix $(PRELOAD_DIR)/,standin.o standin_answers.o)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $^ -ldl
$(addprefix $(PRELOAD_DIR)/,libuser_cudnn8.so libuser_cudnn9.so): $(PRELOAD_DIR)/libuser_cudnn%.so: $(PRELOAD_DIR)/library_user.o $(STANDINS)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN/standin' -o $@ $< $(PRELOAD_DIR)/standin/libcudnn.so.$*
# As a user meets it: programs of other compilers and sanitizers.
ifeq ($(SAN),)
PRELOAD_TESTS_OF_PROGRAMS := tests/preload/sanitizers.sh tests/preload/rights.sh tests/preload/interposers.sh
CLI_TEST_FILES += $(O)/apps/sim/demo $(WRAPPERS)
CLI_TESTS += $(PRELOAD_TESTS_OF_PROGRAMS:%=%:$(O))
endif
