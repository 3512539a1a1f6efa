# SPDX-License-Identifier: Apache-2.0
# `make test`: every test that needs no GPU. Programs are named by the rooms' own .mk files:
#   UNIT_TESTS             run as they are
#   PRELOAD_TEST_PROGRAMS  preload the shim or a part of it: not with SAN
#   FUZZ_RUNS, FAULT_RUNS, ZOO_RUNS, SOAK_RUNS, READER_RUNS, CLI_TESTS    PROGRAM:ARGUMENT
#   CHECKS                 targets

include tests/unit/log_test.mk
include tests/unit/kernels_test.mk
include tests/preload/preload.mk
include tests/apps/zoo.mk
include tests/fuzz/fuzz.mk
include tests/faults/faults.mk
include tests/readers/readers.mk
include tests/unit/core_test.mk
include tests/unit/code_test.mk
include tests/unit/tune_test.mk
include tests/unit/bench_test.mk
include tests/torch/torch.mk

TEST_JOBS ?= 2
# The longest first.
TEST_RUNS  = $(FUZZ_RUNS) $(FAULT_RUNS) $(ZOO_RUNS) $(SOAK_RUNS) $(READER_RUNS) $(UNIT_TESTS) $(PRELOAD_TEST_PROGRAMS) $(CLI_TESTS)

# Without a GPU the demo compiles nothing for one.
CHECKS += check-demo
check-demo:
	$(Q)! $(MAKE) -n --no-print-directory CUDA=$(CUDA) O=$(O)/none demo_gpu= demo | grep 'bin/nvcc'
.PHONY: check-demo

.PHONY: test-programs
test-programs: $(UNIT_TESTS) $(PRELOAD_TEST_PROGRAMS) $(CLI_TEST_FILES) $(O)/fashim \
               $(sort $(foreach run,$(FUZZ_RUNS) $(FAULT_RUNS) $(ZOO_RUNS),$(firstword $(subst :, ,$(run)))))

test: test-programs $(if $(SAN),,$(CHECKS)) ## every test that needs no GPU
ifneq ($(SAN),)
	$(Q)echo '  without what preloads the shim: a sanitizer wants to be first in a process, and so does the shim'
endif
	$(Q)tests/run.sh $(TEST_JOBS) $(TEST_RUNS)
