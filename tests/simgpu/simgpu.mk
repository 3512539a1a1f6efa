# SPDX-License-Identifier: Apache-2.0
# The CPU stand-in for the driver and cuBLAS, and the programs of tests/apps.
#   make simgpu    $(O)/simgpu/libcuda.so.1, libcublas.so.12/13, libcublasLt.so.12/13
#   make apps      $(O)/apps/sim/* (run with LD_LIBRARY_PATH=$(O)/simgpu), $(O)/apps/gpu/*

.PHONY: simgpu apps apps-sim apps-gpu

SIM     := $(O)/tests/simgpu
SIM_LIB := $(O)/simgpu

# Both sides of such a call are compiled here; g++ would note for each kernel that gcc 4.5 differed.
HOSTCU_FLAGS += -Wno-psabi

simgpu: $(SIM_LIB)/libcuda.so.1 $(foreach m,12 13,$(SIM_LIB)/libcublas.so.$(m)) \
        $(SIM_LIB)/libcudnn.so.9 $(SIM_LIB)/libsimkernels.so ## the simulated GPU

# ---- driver: exports and their table from the toolkit's own lists --------------------------
SIM_ONCE  := log version context device stream memory memory_calls mapping module link graph graph_nodes capture procaddr
SIM_TWICE := stream_calls copy launch graph_calls
SIM_OBJ   := $(SIM_ONCE:%=$(SIM)/%.o) $(SIM_TWICE:%=$(SIM)/%.o) $(SIM_TWICE:%=$(SIM)/%_ptsz.o) \
             $(SIM)/exports.o

$(SIM)/%_ptsz.o: tests/simgpu/%.c
	@mkdir -p $(@D)
	$(call say,CC,'$< per-thread')
	$(Q)$(CC) $(CPPFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM $(CFLAGS) -fPIC -MMD -MP -c -o $@ $<

$(SIM)/names: tests/simgpu/simgpu.mk
	@mkdir -p $(@D)
	$(Q)nm -D --defined-only $(CUDA)/lib64/stubs/libcuda.so >$@
$(SIM)/exports.S: tests/simgpu/exports.awk $(SIM)/names
	$(Q)awk -v what=stubs -f $^ $(CUDA)/include/cudaTypedefs.h >$@
$(SIM)/exports.map: tests/simgpu/exports.awk $(SIM)/names
	$(Q)awk -v what=map -f $^ $(CUDA)/include/cudaTypedefs.h >$@
$(SIM)/%.o: $(SIM)/%.S
	$(Q)$(CC) -c -o $@ $<

$(SIM_LIB)/libcuda.so.1: $(SIM_OBJ) $(SIM)/exports.map
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs \
	  -Wl,--version-script=$(SIM)/exports.map -o $@ $(SIM_OBJ) -ldl -lpthread

# ---- cuBLAS, one pair of libraries for each major version ----------------------------------
CFLAGS_blas_gemm += -O3
SIM_VERSION_12 := 120800
SIM_VERSION_13 := 130100

$(SIM)/blas_exports.S: tests/simgpu/blas_exports.awk $(CUDA)/include/cublas_api.h
	@mkdir -p $(@D)
	$(Q)awk -v what=stubs -f $^ >$@
$(SIM)/blas_lt_exports.S: tests/simgpu/blas_exports.awk $(CUDA)/include/cublasLt.h
	@mkdir -p $(@D)
	$(Q)awk -v what=stubs -f $^ >$@

define sim_cublas
$(SIM)/blas-$(1).map: tests/simgpu/blas_exports.awk $(CUDA)/include/cublas_api.h
	@mkdir -p $$(@D)
	$(Q)awk -v what=map -v node=libcublas.so.$(1) -f $$^ >$$@
$(SIM)/blas_lt-$(1).map: tests/simgpu/blas_exports.awk $(CUDA)/include/cublasLt.h
	@mkdir -p $$(@D)
	$(Q)awk -v what=map -v node=libcublasLt.so.$(1) \
	  -v more="cublasLt_for_cublas_gemm sim_kernel_nvjet_sim_gemm" -f $$^ >$$@
$(SIM)/%-$(1).o: tests/simgpu/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< $(1)')
	$(Q)$(CC) $(CPPFLAGS) -DSIM_CUBLAS_VERSION=$(SIM_VERSION_$(1)) $(CFLAGS) -fPIC -MMD -MP -c -o $$@ $$<
$(SIM_LIB)/libcublasLt.so.$(1): $(SIM)/blas_lt-$(1).o $(SIM)/blas_gemm.o $(SIM)/blas_driver.o \
		$(SIM)/blas_lt_exports.o $(SIM)/blas_lt-$(1).map
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$$(@F) -Wl,-Bsymbolic \
	  -Wl,--version-script=$(SIM)/blas_lt-$(1).map -o $$@ $$(filter %.o,$$^) -ldl -lpthread -lm
$(SIM_LIB)/libcublas.so.$(1): $(SIM)/blas-$(1).o $(SIM)/blas_driver.o $(SIM)/blas_exports.o \
		$(SIM)/blas-$(1).map $(SIM_LIB)/libcublasLt.so.$(1)
	$$(call say,LD,$$@)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$$(@F) -Wl,-Bsymbolic -Wl,-rpath,'$$$$ORIGIN' \
	  -Wl,--version-script=$(SIM)/blas-$(1).map -o $$@ $$(filter %.o,$$^) \
	  $(SIM_LIB)/libcublasLt.so.$(1) -ldl -lpthread
endef
$(foreach m,12 13,$(eval $(call sim_cublas,$(m))))

# ---- a little of cuDNN ----------------------------------------------------------------------
$(SIM_LIB)/libcudnn.so.9: $(SIM)/dnn.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $< -ldl

# ---- programs: the same sources for the simulated and for a real GPU ------------------------
APPS             := demo hazards plain_softmax unseen
APP_SRC_hazards  := hazards hazards_alias hazards_observe hazards_order \
                    hazards_stream hazards_forms hazards_arrays hazards_copies \
                    hazards_outputs hazards_columns hazards_masks hazards_library hazards_dense \
                    hazards_values hazards_casts hazards_engines hazards_graphs hazards_graph_life hazards_graph_threads \
                    hazards_graph_hand hazards_graph_nodes hazards_graph_branches hazards_memory \
                    hazards_refused hazards_parts hazards_digests hazards_holes hazards_again hazards_image
APP_KERNELS      := all
APP_KERNELS_plain_softmax := plain_softmax
APP_KERNELS_unseen := unseen
APP_ARCHS        ?= 75 80 86 89 90 100 120
# Setup is about to bring 13 where there is none.
CUBLAS_MAJOR     := $(or $(shell awk '/define CUBLAS_VER_MAJOR/{print $$3}' $(CUDA)/include/cublas_api.h 2>/dev/null),13)
app_sources       = $(or $(APP_SRC_$(1)),$(1)) app app_aten
app_blas          = $(or $(APP_BLAS_$(1)),cublas)
app_kernels       = $(or $(APP_KERNELS_$(1)),$(APP_KERNELS))

apps: apps-sim apps-gpu ## the test programs
apps-sim: $(foreach a,$(APPS),$(O)/apps/sim/$(a) $(O)/apps/sim/$(a).kernels)
apps-gpu: $(foreach a,$(APPS),$(O)/apps/gpu/$(a) $(O)/apps/gpu/$(a).kernels)

$(O)/apps/gpu/%.fatbin: tests/apps/%.cu tests/simgpu/cuda_host.h \
                        $(wildcard tests/apps/*.cu tests/apps/*.cuh) tests/apps/aten.h
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -fatbin -I. $(foreach a,$(APP_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	  -gencode arch=compute_75,code=compute_75 -o $@ $<

SIM_LINKED       := $(SIM_LIB)/libcublas.so.$(CUBLAS_MAJOR) $(SIM_LIB)/libcuda.so.1

define app
$(O)/apps/sim/$(1).kernels: $(PLAIN)/simgpu/cu/tests/apps/$(call app_kernels,$(1)).o $(PLAIN)/simgpu/cuda_host.o
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$(Q)$(CXX) -shared -static-libstdc++ -static-libgcc -Wl,--no-undefined -o $$@ $$^ -lpthread -lm
$(O)/apps/gpu/$(1).kernels: $(O)/apps/gpu/$(call app_kernels,$(1)).fatbin
	$(Q)cp $$< $$@
$(O)/apps/sim/$(1): $(patsubst %,$(O)/tests/apps/%.o,$(call app_sources,$(1))) | $(SIM_LINKED)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$(Q)$(CC) $(LDFLAGS) -o $$@ $$^ -L$(SIM_LIB) -l:lib$(app_blas).so.$(CUBLAS_MAJOR) -l:libcuda.so.1 \
	  -Wl,-rpath-link,$(SIM_LIB) -ldl -lpthread -lm
$(O)/apps/gpu/$(1): $(patsubst %,$(O)/tests/apps/%.o,$(call app_sources,$(1)))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$(Q)$(CC) $(LDFLAGS) -o $$@ $$^ -L$(CUDA)/lib64 -L$(CUDA)/lib64/stubs -l$(app_blas) -lcuda \
	  -Wl,-rpath-link,$(CUDA)/lib64 -ldl -lpthread -lm
endef
$(foreach a,$(APPS),$(eval $(call app,$(a))))

# ---- the simulated GPU's own tests ---------------------------------------------------------
SIM_TESTS  := test_driver test_order test_products
UNIT_TESTS += $(SIM_TESTS:%=$(SIM)/%)

$(SIM)/test_driver.o: CPPFLAGS += -DBUILD_FOLDER='"$(abspath $(O))"'
$(SIM_TESTS:%=$(SIM)/%): %: %.o | simgpu apps-sim
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< -L$(SIM_LIB) -l:libcublas.so.$(CUBLAS_MAJOR) \
	  -l:libcublasLt.so.$(CUBLAS_MAJOR) -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN/../../simgpu' \
	  -Wl,--disable-new-dtags -lcmocka -ldl -lpthread -lm
