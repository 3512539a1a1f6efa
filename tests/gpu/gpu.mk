# SPDX-License-Identifier: Apache-2.0
# Tests on a real GPU. The compiled programs build wherever nvcc is; running them needs the machine.
#
#     make test-gpu [GPU_FLAGS='--quick --only bert*']

GPU_PROGRAMS := $(addprefix $(O)/gpu/,static_cudart two_threads dlopen_cublas linked_driver \
                linked_driver_asan two_contexts busy_device stale_lock peers)
GPU_OUT      ?= $(O)/gpu/out
GPU_FLAGS    ?=
GPU_ARCHS    := -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=sm_90
GPU_CFLAGS   := -Itests/gpu -I$(CUDA)/include -O2
GPU_LINK     := -L$(CUDA)/lib64 -L$(CUDA)/lib64/stubs

# What those tests judge and count with is tested everywhere.
ifeq ($(SAN),)
CLI_TESTS += $(patsubst %,tests/gpu/unittests.py:%,$(wildcard tests/gpu/test_*.py tests/lint/test_*.py))
endif

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

$(addprefix $(O)/gpu/,linked_driver two_contexts busy_device stale_lock peers): $(O)/gpu/%: tests/gpu/%.c tests/gpu/driver_app.h
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(GPU_LINK) -Wl,-rpath-link,$(CUDA)/lib64 \
		-lcublas -lcuda -lm

# Linked statically: the machine that runs it may have another compiler's runtime, or none.
$(O)/gpu/linked_driver_asan: tests/gpu/linked_driver.c tests/gpu/driver_app.h
	@mkdir -p $(@D)
	$(call say,CCLD,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fsanitize=address $(if $(findstring clang,$(CC)),-static-libsan,-static-libasan) -o $@ $< \
		$(GPU_LINK) -Wl,-rpath-link,$(CUDA)/lib64 -lcublas -lcuda -lm

# The catalogue's programs: the call sequences of inference engines.
CATALOGUE_PROGRAMS := $(patsubst tests/gpu/catalogue/%.cu,$(O)/gpu/catalogue/%, \
                      $(wildcard tests/gpu/catalogue/*.cu))
gpu-programs: $(CATALOGUE_PROGRAMS)
$(CATALOGUE_PROGRAMS): $(O)/gpu/catalogue/%: tests/gpu/catalogue/%.cu tests/gpu/catalogue/engine.h
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(GPU_ARCHS) $(GPU_CFLAGS) -cudart static -Xcompiler -Wall,-Wextra,-Werror \
		-o $@ $< $(GPU_LINK) -Xlinker -rpath-link=$(CUDA)/lib64 -lcublas -lcublasLt -ldl

# The kernels by themselves: every variant on every case, and beside PyTorch's.
#
#     make kernel-check [KERNEL_CHECK_FLAGS='-q -k sm90']
#     make bench        [BENCH_FLAGS='--quick --rows decode']
#     make sanitize     [SANITIZE_FLAGS=sm90]
#     make profile      [PROFILE_FLAGS='--only split --no-sanitize']
#
# Whole models: make times [TIMES_FLAGS='--only bert,t5 --kernels 12']
KERNEL_CHECK_FLAGS ?=
BENCH_FLAGS        ?=
SANITIZE_FLAGS     ?=
PROFILE_FLAGS      ?=
TIMES_FLAGS        ?=
KERNEL_HOST := $(KERNEL_OBJECTS) $(K)/bench_abi.o
gpu_driver  := -L$(CUDA)/lib64/stubs -lcuda

gpu-programs: $(O)/gpu/kernel_check $(O)/libfashim_kernels.so
$(O)/gpu/kernel_check: $(addprefix $(O)/tests/gpu/,kernel_check.o kernel_cases.o kernel_operands.o) \
                       $(KERNEL_HOST)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(gpu_driver) -lm

gpu-programs: $(O)/gpu/profile_launch
$(O)/gpu/profile_launch: $(addprefix $(O)/tests/gpu/,profile_launch.o kernel_cases.o kernel_operands.o) \
                         $(KERNEL_HOST)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(gpu_driver) -lm

$(O)/libfashim_kernels.so: $(KERNEL_HOST)
# For tests on the simulated GPU: kernels/kernels.mk.
$(O)/sim/libfashim_kernels.so:  $(KERNEL_CHOICE) $(SIM_IMAGES) $(K)/bench_abi.o
$(O)/text/libfashim_kernels.so: $(KERNEL_CHOICE) $(TEXT_IMAGES) $(K)/bench_abi.o
$(addprefix $(O)/,libfashim_kernels.so sim/libfashim_kernels.so text/libfashim_kernels.so):
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,--no-undefined -o $@ $^ $(gpu_driver) -lm

# The fp32 kernels beside fp32 arithmetic: `f32_check [-q] IMAGE [WORD]`.
gpu-programs: $(O)/gpu/f32_check $(O)/gpu/f32_check.fatbin
$(O)/gpu/f32_check: $(addprefix $(O)/tests/gpu/,f32_check.o f32_chain.o) $(KERNEL_CHOICE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(gpu_driver) -lm -ldl
$(O)/gpu/f32_check.fatbin: tests/gpu/f32_check.cu $(if $(wildcard $(O)/gpu/f32_check.fatbin.d),,kernel-list)
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -fatbin -MMD -MP -MF $@.d -MT $@ -gencode=arch=compute_90a,code=sm_90a $(NVCCFLAGS) -o $@ $<

.PHONY: kernel-check sanitize profile times
kernel-check: $(O)/gpu/kernel_check ## every kernel against double precision (on a GPU)
	$(Q)$< $(KERNEL_CHECK_FLAGS)
bench: $(O)/libfashim_kernels.so ## our kernels beside PyTorch's (on a GPU, needs PyTorch)
	$(Q)python3 tests/gpu/bench --lib $< --json $(O)/bench.json \
	    --commit "$$(git describe --always --dirty 2>/dev/null)" $(BENCH_FLAGS)
sanitize: $(O)/gpu/kernel_check ## compute-sanitizer over every kernel (on a GPU)
	$(Q)tests/gpu/sanitize_kernels.sh $< $(SANITIZE_FLAGS)

profile: ## what binds each kernel: Nsight Compute and compute-sanitizer (on a GPU)
	$(Q)python3 tests/gpu/profile_kernels.py --build $(O) --out $(O)/profile $(PROFILE_FLAGS)

times: ## whole models: eager, under the shim, edited to SDPA (on a GPU, needs transformers)
	$(Q)python3 tests/gpu/times.py --lib $(O)/libfashim.so --out $(O)/times \
	    --commit "$$(git describe --always --dirty 2>/dev/null)" $(TIMES_FLAGS)

# Nothing is built where there is no device: all.sh then says "skipped" and passes.
ifneq ($(wildcard /dev/nvidia0 /dev/nvidiactl),)
test-gpu: $(O)/libfashim.so gpu-programs apps-gpu
times: $(O)/libfashim.so
profile: $(O)/gpu/profile_launch $(O)/gpu/kernel_check
endif
test-gpu: ## the tests that need a GPU; skipped where there is none
	$(Q)tests/gpu/all.sh $(O) $(GPU_OUT) $(GPU_FLAGS)
