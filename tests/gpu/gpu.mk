# SPDX-License-Identifier: Apache-2.0
# Tests on a real GPU. The compiled programs build wherever nvcc is; running them needs the machine.
#
#     make test-gpu [GPU_FLAGS='--quick --only bert*']

GPU_PROGRAMS := $(addprefix $(O)/gpu/,static_cudart two_threads dlopen_cublas linked_driver \
                two_contexts)
GPU_OUT      ?= $(O)/gpu/out
GPU_FLAGS    ?=
GPU_ARCHS    := -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=sm_90
GPU_CFLAGS   := -Itests/gpu -I$(CUDA)/include -O2
GPU_LINK     := -L$(CUDA)/lib64 -L$(CUDA)/lib64/stubs

.PHONY: gpu-programs test-gpu
gpu-programs: $(GPU_PROGRAMS) $(O)/gpu/driver_kernels.fatbin ## compiled programs of the GPU tests

$(O)/gpu/driver_kernels.fatbin: tests/gpu/driver_kernels.cu tests/gpu/app_kernels.h
	@mkdir -p $(@D)
	$(call say,FATBIN,$<)
	$(Q)$(NVCC) $(GPU_ARCHS) $(GPU_CFLAGS) -fatbin -o $@ $<

$(O)/gpu/static_cudart $(O)/gpu/two_threads: $(O)/gpu/%: tests/gpu/%.cu tests/gpu/runtime_app.h \
                                             tests/gpu/app_kernels.h
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(GPU_ARCHS) $(GPU_CFLAGS) -cudart static -Xcompiler -Wall,-Wextra,-Werror \
		-o $@ $< $(GPU_LINK) -Xlinker -rpath-link=$(CUDA)/lib64 -lcublas -lpthread

$(O)/gpu/dlopen_cublas: tests/gpu/dlopen_cublas.c tests/gpu/driver_app.h
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< -ldl -lm

$(O)/gpu/linked_driver $(O)/gpu/two_contexts: $(O)/gpu/%: tests/gpu/%.c tests/gpu/driver_app.h
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(GPU_LINK) -Wl,-rpath-link,$(CUDA)/lib64 \
		-lcublas -lcuda -lm

# The kernels by themselves: `kernel_check IMAGE`, IMAGE being one of build/kernels/*.fatbin.
gpu-programs: $(O)/gpu/kernel_check
$(O)/gpu/kernel_check: tests/gpu/kernel_check.c kernels/select.c kernels/attention.h \
                       kernels/sm90_variants.h kernels/wmma_variants.h kernels/decode_variants.h
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) -I. $(CFLAGS) -I$(CUDA)/include -o $@ $(filter %.c,$^) $(GPU_LINK) -lcuda -lm

# Nothing is built where there is no device: all.sh then says "skipped" and passes.
ifneq ($(wildcard /dev/nvidia0 /dev/nvidiactl),)
test-gpu: $(O)/libfashim.so gpu-programs apps-gpu
endif
test-gpu: ## the tests that need a GPU; skipped where there is none
	$(Q)tests/gpu/all.sh $(O) $(GPU_OUT) $(GPU_FLAGS)
