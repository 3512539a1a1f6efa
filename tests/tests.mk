# SPDX-License-Identifier: Apache-2.0
# `make test`: every test that needs no GPU. Programs are named by the rooms' own .mk files:
#   UNIT_TESTS             run as they are
#   PRELOAD_TEST_PROGRAMS  preload the shim or a part of it: with SAN not all
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

# Without a GPU the demo compiles nothing for one. What it shows to be typed is what it runs.
CHECKS += check-demo
check-demo:
	$(Q)! $(MAKE) -n --no-print-directory CUDA=$(CUDA) O=$(O)/none demo_gpu= demo | grep 'bin/nvcc'
	$(Q)$(MAKE) -n --no-print-directory CUDA=$(CUDA) O=$(O)/none demo_gpu= demo | \
	    awk "/^echo '[$$] / { shown = substr(\$$0, 9, length - 9); getline; steps++; if (\$$0 != shown) bad = 1 } END { exit bad || steps != 3 }"
CHECKS += check-tracepoints
check-tracepoints: $(SHIM_FOR_SIM)
	$(Q)python3 tests/unit/check_tracepoints.py $< docs/recipes.md
.PHONY: check-demo check-tracepoints

.PHONY: test-programs
test-programs: $(UNIT_TESTS) $(PRELOAD_TEST_PROGRAMS) $(CLI_TEST_FILES) $(O)/fashim $(O)/tests/readers/corpus \
               $(sort $(foreach run,$(FUZZ_RUNS) $(FAULT_RUNS) $(ZOO_RUNS),$(firstword $(subst :, ,$(run)))))

test: test-programs $(if $(SAN),,$(CHECKS)) ## every test that needs no GPU
	$(Q)tests/run.sh $(TEST_JOBS) $(TEST_RUNS)

# Whole programs are among what the command is tried with.
.PHONY: test-cli
test-cli: $(CLI_TEST_FILES) $(SHIM_FOR_SIM) apps-sim ## the tests of the command
	$(Q)tests/cli/run.sh $(O)

# What is built once more takes as much of a minute as it runs. No leaks: the shim keeps what it has to its end.
SANITIZED_RUNS := tests/apps/sanitized.sh:$(O) $(addprefix $(O)/tests/unit/,$(CORE_TESTS) $(filter-out test_cost,$(LOG_TESTS))) $(CODE_TESTS) \
                  $(PRELOAD_TEST_PROGRAMS) $(O)/tests/readers/corpus:tests/readers/corpus
.PHONY: sanitized run-sanitized
sanitized: ## core, preload and a part of the zoo under the sanitizers of addresses, of undefined behaviour and of threads
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined run-sanitized
	$(Q)$(MAKE) --no-print-directory races
run-sanitized: $(foreach run,$(wordlist 2,99,$(SANITIZED_RUNS)),$(firstword $(subst :, ,$(run)))) $(O)/libfashim.so simgpu apps-sim
	$(Q)ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 tests/run.sh $(TEST_JOBS) $(SANITIZED_RUNS)
