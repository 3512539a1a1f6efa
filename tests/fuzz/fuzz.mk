# SPDX-License-Identifier: Apache-2.0
# The fuzzer: random programs over the simulated GPU, plain against the shim (tests/fuzz/README.md).
#   make fuzz SEEDS=1-200 [MODES=replace,async,…] [JOBS=1]

.PHONY: fuzz fuzz-programs
FUZZ       := $(O)/tests/fuzz
FUZZ_APP   := $(O)/apps/sim/fuzz
FUZZ_PARTS := fuzz memory launch product site chain middle graph special event reads writes orders \
              addresses refusals factors mapped hides

$(FUZZ_APP).kernels: $(PLAIN)/simgpu/cu/tests/fuzz/fuzz.o $(PLAIN)/simgpu/cuda_host.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -static-libstdc++ -static-libgcc -Wl,--no-undefined -o $@ $^ -lpthread -lm

$(FUZZ_APP): $(FUZZ_PARTS:%=$(FUZZ)/%.o) | $(SIM_LINKED)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -L$(SIM_LIB) -l:libcublas.so.$(CUBLAS_MAJOR) \
	  -l:libcublasLt.so.$(CUBLAS_MAJOR) -l:libcuda.so.1 -Wl,-rpath-link,$(SIM_LIB) -ldl -lpthread -lm

$(FUZZ)/run: $(addprefix $(O)/tests/,fuzz/run.o fuzz/differ.o apps/zoo_run.o unit/child.o)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -ljansson -lm

$(FUZZ)/run: | $(FUZZ_APP) $(FUZZ_APP).kernels simgpu $(SHIM_FOR_SIM)
# About a minute of it in `make test`.
ifeq ($(SAN),)
FUZZ_RUNS := $(FUZZ)/run:1-70
endif

fuzz-programs: $(FUZZ)/run $(FUZZ_APP) $(FUZZ_APP).kernels simgpu $(SHIM_FOR_SIM)

SEEDS ?= 1-200
fuzz: fuzz-programs ## random programs over the simulated GPU, plain against the shim: SEEDS=1-200
	$(Q)$(FUZZ)/run $(SEEDS) $(if $(MODES),--modes $(MODES)) $(if $(JOBS),--jobs $(JOBS))
