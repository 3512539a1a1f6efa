# SPDX-License-Identifier: Apache-2.0
# The hazard zoo under the whole shim (tests/apps/zoo.c), one run of the program for each way.

ZOO := $(O)/tests/apps/zoo
ifeq ($(SAN),)
ZOO_RUNS := $(addprefix $(ZOO):,replace replace@12.2 async poison compare audit off own unseen unseen@12.2 \
              unseen@12.4 unseen@12.8 graphs programs)
endif

ZOO_APPS := forks waits collective unwound leaves soak lt_alone
APP_BLAS_lt_alone := cublasLt
APPS     += $(ZOO_APPS)
$(foreach a,$(ZOO_APPS),$(eval $(call app,$(a))))
apps-sim: $(foreach a,$(ZOO_APPS),$(O)/apps/sim/$(a) $(O)/apps/sim/$(a).kernels)
apps-gpu: $(O)/apps/gpu/lt_alone $(O)/apps/gpu/lt_alone.kernels

$(ZOO): $(addprefix $(O)/tests/,apps/zoo.o apps/zoo_compare.o apps/zoo_programs.o apps/zoo_run.o unit/child.o)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson -lm
$(O)/tests/apps/zoo_programs.o: CPPFLAGS += -DRULES_DOCS='"$(abspath docs/rules.md)"'
$(ZOO): | simgpu apps-sim $(SHIM_FOR_SIM) $(O)/fashim $(addprefix $(O)/text/,fashim libfashim.so libfashim_kernels.so)

# The command, beside a shim that has text alone.
$(O)/text/fashim: $(O)/fashim
	@mkdir -p $(@D)
	$(Q)cp $< $@

# A few seconds of it in `make test`.
.PHONY: soak
ifeq ($(SAN),)
SOAK_RUNS := tests/apps/soak.sh:$(O):short
endif
soak: $(SHIM_FOR_SIM) simgpu apps-sim ## what the shim holds does not grow as long as a program runs
	$(Q)tests/apps/soak.sh $(O)

# With another build of all of it: minutes.
.PHONY: races
races: ## programs with several threads under the thread sanitizer
	$(Q)$(MAKE) --no-print-directory SAN=thread libfashim-and-apps
	$(Q)tests/apps/races.sh $(O)/san-thread
.PHONY: libfashim-and-apps
libfashim-and-apps: $(O)/libfashim.so simgpu apps-sim $(addprefix $(O)/tests/unit/,test_exit test_log)
