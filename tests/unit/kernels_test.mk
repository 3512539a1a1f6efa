# SPDX-License-Identifier: Apache-2.0
# The kernels in their host build against double precision, the host build itself, and what ptxas
# said of registers and spills.
#   UNIT_TESTS: programs that `make test` runs; CHECKS: targets it needs.

KERNEL_TESTS := test_cuda_host test_ladder test_kernels $(addprefix test_kernels_,checks choice choice_rounded decode f32 hard images made moves overflow parts rounded rows scores weights)
UNIT_TESTS += $(addprefix $(O)/tests/unit/,$(KERNEL_TESTS))
CHECKS     += check-ptxas

T := $(O)/tests/unit
kernel_case := $(T)/test_kernels_case.o $(T)/test_kernels_answer.o $(T)/test_kernels_compare.o
kernel_test_libs := -DSIM_KERNELS='"$(abspath $(O))/simgpu/libsimkernels.so"' \
    -DHOST_KERNELS='"$(abspath $(O))/simgpu/libhostkernels.so"' \
    -DHOPPER_KERNELS='"$(abspath $(O))/simgpu/libhopperkernels.so"'
$(T)/test_kernels_compare.o: CPPFLAGS += $(kernel_test_libs)

$(O)/simgpu/libhostkernels.so: $(PLAIN)/simgpu/cu/tests/unit/cuda_host_kernels.o \
    $(PLAIN)/simgpu/cu/tests/unit/test_kernels_weights.o $(PLAIN)/simgpu/cuda_host.o
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -static-libstdc++ -static-libgcc -Wl,--no-undefined -o $@ $^ -lm

# What the matrix instructions and barriers of Hopper do, in tests/simgpu/hopper.
$(PLAIN)/simgpu/cu/kernels/f32_sm90.o: HOSTCU_FLAGS := -Itests/simgpu/hopper $(HOSTCU_FLAGS)
# What Hopper compiles to something else.
$(PLAIN)/simgpu/cu/hopper/%.o: %.cu tests/simgpu/cuda_host.h tests/simgpu/cuda_host_ptx.h tests/simgpu/sim_kernel.h
	@mkdir -p $(@D)
	$(call say,HOSTCU,$@)
	$(Q)$(CXX) -DFASHIM_HOPPER_HOST -Itests/simgpu/hopper $(HOSTCU_FLAGS) -MMD -MP -c -o $@ $<
$(O)/simgpu/libhopperkernels.so: $(PLAIN)/simgpu/cu/kernels/f32_sm90.o $(PLAIN)/simgpu/cu/hopper/kernels/rounded.o \
    $(PLAIN)/simgpu/cuda_host.o
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -static-libstdc++ -static-libgcc -Wl,--no-undefined -o $@ $^ -lm
$(T)/test_kernels_f32 $(T)/test_kernels_hard $(T)/test_kernels_rounded: | $(O)/simgpu/libhopperkernels.so

kernels_on_sim := $(addprefix $(T)/,$(filter-out test_cuda_host test_kernels_weights,$(KERNEL_TESTS)))
$(kernels_on_sim): | $(O)/simgpu/libsimkernels.so
$(T)/test_cuda_host $(T)/test_kernels_weights: | $(O)/simgpu/libhostkernels.so
$(filter-out %_images,$(addprefix $(T)/,$(KERNEL_TESTS))): $(kernel_case) $(KERNEL_CHOICE)
$(T)/test_kernels_images: $(KERNEL_OBJECTS)
$(addprefix $(T)/,$(KERNEL_TESTS)): %: %.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -lm -ldl

check-ptxas: $(filter-out %/ladder.fatbin,$(filter $(K)/sm_%,$(kernel_objects)))
	$(Q)tests/unit/check_ptxas.sh $(^:.fatbin=.ptxas)

# The smallest part as PORTABLE=1 makes it: older drivers load that, and not the same from nvcc alone.
CHECKS += check-portable
$(O)/tests/unit/portable/compute_80/helpers.fatbin: $(K)/compute_80/helpers.ptx kernels/portable.sh
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)kernels/portable.sh $(NVCC) $(dir $(NVCC))ptxas compute_80 $< $@ >$(@:.fatbin=.ptxas) 2>&1 || \
	    { cat $(@:.fatbin=.ptxas) >&2; exit 1; }
check-portable: $(O)/tests/unit/portable/compute_80/helpers.fatbin $(if $(PORTABLE),,$(filter $(K)/%/helpers.fatbin,$(kernel_objects)))
	$(Q)python3 tests/unit/check_images.py $(O)/tests/unit/portable 550
	$(Q)$(if $(PORTABLE),,! python3 tests/unit/check_images.py $(K) 550 >/dev/null)
.PHONY: check-ptxas check-portable
