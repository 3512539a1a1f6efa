# SPDX-License-Identifier: Apache-2.0
# What kernels are made of: cubins, PTX and fat binaries as nvcc writes them. Without nvcc the test
# leaves out what needs them, and says so.

CODE      := $(PLAIN)/tests/unit/kernel_code
CODE_ARCHS := 75 80 86 89 90a 100a 120
CODE_MODES := default size speed balance none
CODE_MADE := $(CODE_ARCHS:%=$(CODE)/sm_%.cubin) $(CODE)/linked.cubin $(CODE)/compute_80.ptx $(CODE_MODES:%=$(CODE)/%.fatbin)

CODE_TESTS := $(addprefix $(O)/tests/unit/,test_kernel_code test_kernel_made test_unpack test_threads)
THREADS_ARCHS := 75 80 86 89 90a
CODE_MADE += $(THREADS_ARCHS:%=$(CODE)/threads_%.cubin) $(CODE)/threads_random.cubin
UNIT_TESTS += $(CODE_TESTS)

$(CODE)/sm_%.cubin: tests/unit/kernel_code_kernels.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -cubin -arch=sm_$* -Wno-deprecated-gpu-targets -diag-suppress 20014 -o $@ $<
$(CODE)/threads_%.cubin: tests/unit/threads_kernels.cu tests/unit/threads_bodies.h tests/unit/threads_bodies_memory.h
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -cubin -I. -arch=sm_$* -Wno-deprecated-gpu-targets -diag-suppress 177,550 -o $@ $<
$(CODE)/threads_random.cu: tests/unit/threads_random.py
	@mkdir -p $(@D)
	$(Q)python3 $< 1 80 > $@
$(CODE)/threads_random.cubin: $(CODE)/threads_random.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -w -cubin -arch=sm_90 -o $@ $<
# Functions in sections of their own, put together by the linker.
$(CODE)/linked.cubin: tests/unit/kernel_code_kernels.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -cubin -rdc=true -arch=sm_90 -diag-suppress 20014 -o $(@:.cubin=.o.cubin) $<
	$(Q)$(dir $(NVCC))nvlink -suppress-stack-size-warning -arch=sm_90 -o $@ $(@:.cubin=.o.cubin)
$(CODE)/compute_80.ptx: tests/unit/kernel_code_kernels.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -ptx -arch=compute_80 -o $@ $<
$(CODE)/%.fatbin: $(CODE_ARCHS:%=$(CODE)/sm_%.cubin) $(CODE)/compute_80.ptx
	$(Q)$(dir $(NVCC))fatbinary -64 --compress-mode=$* $(if $(filter none,$*),,--compress-all) --create=$@ \
	  $(foreach a,$(CODE_ARCHS),--image3=kind=elf,sm=$(a),file=$(CODE)/sm_$(a).cubin) \
	  --image3=kind=ptx,sm=80,file=$(CODE)/compute_80.ptx

$(O)/tests/unit/code_fixture.o: CPPFLAGS += -DCODE_FOLDER='"$(abspath $(CODE))"'
$(O)/tests/unit/test_kernel_code.o: CPPFLAGS += -DBUILD_FOLDER='"$(abspath $(O))"' \
  $(if $(wildcard $(NVCC)),-DCODE_EMBEDDED='"$(abspath $(CODE)/sm_90a.cubin)"')
$(O)/tests/unit/test_kernel_code.o: $(if $(wildcard $(NVCC)),$(CODE)/sm_90a.cubin)
$(filter-out %_made %_threads,$(CODE_TESTS)): %: %.o $(addprefix $(O)/,tests/unit/code_fixture.o tests/unit/code_expected.o \
    ) $(call shim_objects,config cost message names option own_file kernel_code kernel_names kernel_table kernel_layout kernel_code_cubin kernel_code_follows kernel_code_made kernel_code_image kernel_code_ptx \
      unpack_lz4 unpack_zstd unpacked zstd_tables) | $(if $(wildcard $(NVCC)),$(CODE_MADE)) apps-sim
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(if $(filter %test_unpack,$@),$(filter-out %code_expected.o %kernel_code.o %kernel_names.o %kernel_table.o %kernel_layout.o %_cubin.o %_follows.o %_made.o %_image.o %_ptx.o,$^),$^) -lcmocka -lpthread
$(O)/tests/unit/test_kernel_made: %: %.o $(call shim_objects,kernel_code_follows kernel_code_made)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka
$(O)/tests/unit/test_threads: %: %.o $(O)/tests/unit/code_fixture.o $(call shim_objects,threads threads_code threads_compute threads_division threads_local threads_quotient threads_stored threads_stretch threads_sums threads_touch threads_truths threads_warp kernel_code_cubin kernel_code_follows kernel_code_made kernel_table kernel_layout) \
    | $(if $(wildcard $(NVCC)),$(CODE_MADE))
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka
$(O)/tests/unit/test_extent: $(O)/tests/unit/code_fixture.o | $(if $(wildcard $(NVCC)),$(CODE)/threads_90a.cubin)
$(O)/tests/unit/test_extent: LDFLAGS += -Wl,--wrap=kernel_code_text,--wrap=ledger_left,--wrap=threads_run
