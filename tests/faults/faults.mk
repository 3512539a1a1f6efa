# SPDX-License-Identifier: Apache-2.0
# Calls of the shim that are refused, over the simulated GPU (tests/faults/faults.c).
#   make faults [FAULTS='--slice 10'|'--share 1/5'|'hazards:p_copied driver:once:17']

.PHONY: faults
FAULTS_RUN := $(O)/tests/faults/faults

$(O)/tests/faults/fault.so: $(O)/tests/faults/fault.o
	$(call say,LD,$@)
	$(Q)$(CC) -shared -o $@ $< -ldl
$(FAULTS_RUN): $(addprefix $(O)/tests/,faults/faults.o apps/zoo_run.o unit/child.o)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -ljansson -lm
$(FAULTS_RUN): | $(O)/tests/faults/fault.so simgpu apps-sim $(SHIM_FOR_SIM)

# A few of them in `make test`.
ifeq ($(SAN),)
FAULT_RUNS := $(FAULTS_RUN):--brief
endif
CHECKS += lint-waits

faults: $(FAULTS_RUN) ## every call that the shim makes is refused once: the programs' answers stay right
	$(Q)$(FAULTS_RUN) --jobs $$(nproc) $(FAULTS)
