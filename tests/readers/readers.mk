# SPDX-License-Identifier: Apache-2.0
# What the command reads, changed at random (tests/readers/readers.py). With another build of the command: minutes.
#   make fuzz-readers [RUNS=20000] [SEED=1]

.PHONY: fuzz-readers fashim-alone
RUNS ?= 20000
SEED ?= 1
fuzz-readers: ## logs, traces, rules and tuning caches, changed at random, under sanitizers: RUNS=20000 SEED=1
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined fashim-alone
	$(Q)tests/readers/readers.py $(O)/san-address-undefined/fashim $(RUNS) $(SEED)
fashim-alone: $(O)/fashim

# A few seconds of it in `make test`.
READER_RUNS := tests/readers/readers.py:$(O)/fashim:240
