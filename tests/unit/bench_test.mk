# SPDX-License-Identifier: Apache-2.0
# What watching costs a program whose launches are of no interest.

BENCH_LAUNCH := $(O)/tests/unit/bench_launch
ifeq ($(SAN),)
CLI_TEST_FILES += $(BENCH_LAUNCH)
CLI_TESTS      += tests/unit/bench_launch.sh:$(O):bound
endif

$(BENCH_LAUNCH): $(O)/tests/unit/bench_launch.o | simgpu apps-sim $(O)/libfashim.so
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -L$(SIM_LIB) -l:libcublas.so.$(CUBLAS_MAJOR) -l:libcuda.so.1 \
	  -Wl,-rpath-link,$(SIM_LIB)

bench-launch: $(BENCH_LAUNCH) ## ns and instructions that the shim adds to a kernel launch
	$(Q)tests/unit/bench_launch.sh $(O)
.PHONY: bench-launch
