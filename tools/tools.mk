# SPDX-License-Identifier: Apache-2.0
# The command `fashim`, and the targets around the sources: demo, lint, format, install.

TOOL_FILES   := $(patsubst %.c,$(O)/%.o,$(wildcard tools/*.c tools/*/*.c))
# Objects of the tools by the names of their files; a name that no file has stops make.
tool_objects = $(foreach name,$(1),$(or $(filter %/$(name).o,$(TOOL_FILES)),$(error no tools/*/$(name).c)))
# What of them is linked with the core; the command itself stands outside.
REPLAY_FILES := $(filter-out %/cmd_replay.o,$(filter $(O)/tools/replay/%,$(TOOL_FILES)))

# ---- the shim's core over a driver that does nothing: `fashim replay` and the core's unit tests
# tools/replay/below.c stands for these files of the shim.

CORE_BELOW   := hook_table blas blas_lt compare driver driver_table fused fused_% identify identify_flags identify_slopes image measure measure_% nvtx overwrite preload probe reach resolve scratch thunk timing cudnn_attributes cudnn_graph cudnn_tensor fft_plan library library_handle bypass
CORE_SOURCES := $(foreach file,$(filter %.c,$(SHIM_SOURCES)),$(if $(filter hook_% $(CORE_BELOW),$(basename $(notdir $(file)))),,$(file)))
CORE_OBJECTS := $(CORE_SOURCES:%.c=$(O)/%.o) \
                $(KERNEL_CHOICE)
# … and tools/replay/records.c for these.
REPLAY_TELLS := decline log log_header log_live session
REPLAY_PARTS := $(filter-out $(call shim_objects,$(REPLAY_TELLS)) $(KERNEL_CHOICE),$(CORE_OBJECTS)) \
                $(REPLAY_FILES)
OBJCOPY      ?= objcopy

# One object that shows a single function: the shim's names mean other things in the command.
$(O)/tools/replay.o: $(REPLAY_PARTS)
	$(call say,LD,$@)
	$(Q)$(CC) -r -nostdlib -o $@ $^
	$(Q)$(OBJCOPY) --keep-global-symbol=replay_explain $@

# ---- the command --------------------------------------------------------------------------------

TOOL_OBJECTS := $(filter-out $(REPLAY_FILES),$(TOOL_FILES)) $(O)/tools/replay.o $(KERNEL_CHOICE) \
                $(call shim_objects,call_form kernel_cache option tuned_file user_file user_rule)
TOOL_LIBS    := -ljansson -lsmartcols -lsqlite3 -lm -lpthread -ldl

all: $(O)/fashim $(O)/libfashim_kernels.so $(O)/referee.py

# Speaks to PyTorch for `fashim bench`.
$(O)/referee.py: tools/bench/referee.py
	@mkdir -p $(@D)
	$(Q)cp $< $@

# What `fashim doctor` says of the kernels: CUDA 12's assembler made a portable build's.
$(O)/tools/doctor/doctor_machine.o: CPPFLAGS += $(if $(PORTABLE),-DKERNELS_CUDA=12)

ifeq ($(PORTABLE),)
$(O)/fashim: $(TOOL_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS)
else
# A portable one brings what not every machine has; libsmartcols is wherever mount is. The linker's C library cannot
# have its stdin copied into a program, and Jansson alone asks for that, to name what it reads.
$(O)/libjansson.a:
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --redefine-sym stdin=not_stdin $(shell $(CC) -print-file-name=libjansson.a) $@
$(O)/not_stdin.o:
	@mkdir -p $(@D)
	$(Q)echo 'void *not_stdin;' | $(CC) -x c -fPIC -c -o $@ -
$(O)/fashim: $(TOOL_OBJECTS) $(O)/not_stdin.o $(O)/libjansson.a
	$(call say,LINK,$@)
	$(Q)$(LINK) -pie -o $@ $^ $(shell $(CC) -print-file-name=libsqlite3.a) $(shell $(CC) -print-file-name=libsmartcols.so) \
	  -Wl,--allow-shlib-undefined -Wl,-z,nocopyreloc,-z,relro,-z,now -lm -lpthread -ldl
endif

# ---- tests of the command -----------------------------------------------------------------------

CLI_UNIT_TESTS := $(addprefix $(O)/tests/cli/,test_bootstrap test_kernel_name test_series test_log_versions)
CLI_TEST_FILES := $(O)/fashim $(CLI_UNIT_TESTS) $(addprefix $(O)/tests/cli/,test_gpu test_scan test_gate check_trace query ended live static fake.so \
                  doctor/calls doctor/copy_inside doctor/opener doctor/libcuda.so.1) \
                  $(O)/man/fashim.7 $(O)/completion/fashim $(O)/sim/libfashim_kernels.so \
                  $(addprefix $(O)/text/,fashim libfashim.so libfashim_kernels.so) \
                  $(addprefix $(O)/simgpu/,libcuda.so.1 libcublas.so.12 libcublas.so.13 libsimkernels.so)
CLI_TESTS      := tests/cli/run.sh:$(O) tests/cli/test_html.sh:$(O) tests/cli/test_setup.sh:$(O) $(CLI_UNIT_TESTS) $(O)/tests/cli/test_gpu

$(O)/tests/cli/ended $(O)/tests/cli/live: $(O)/tests/cli/%: tests/cli/%.c shim/log/log_format.h shim/log/reasons.def
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 $(WARNINGS) -o $@ $<

$(O)/tests/cli/test_scan: $(O)/tests/cli/test_scan.o $(call tool_objects,sample_scan log_name)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson -lm

$(O)/tests/cli/test_bootstrap: $(O)/tests/cli/test_bootstrap.o $(call tool_objects,bootstrap)
$(O)/tests/cli/test_kernel_name: $(O)/tests/cli/test_kernel_name.o $(call tool_objects,kernel_name)
$(O)/tests/cli/test_series: $(O)/tests/cli/test_series.o $(call tool_objects,sample_points histogram)
$(O)/tests/cli/test_log_versions: $(O)/tests/cli/test_log_versions.o \
                                  $(call tool_objects,json_member kernel_name line_reader live packed_file progress run_log safe_text sample_points sample_scan)
$(CLI_UNIT_TESTS):
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson -lm

$(O)/tests/cli/test_gate: $(O)/tests/cli/test_gate.o $(filter-out $(call tool_objects,fashim),$(TOOL_OBJECTS))
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS) -lcmocka

# Finds the CPU stand-in wherever it is run.
$(O)/tests/cli/test_gpu.o: CPPFLAGS += -DBUILD_FOLDER='"$(abspath $(O))"'
$(O)/tests/cli/test_gpu: $(O)/tests/cli/test_gpu.o \
                         $(call tool_objects,gpu gpu_operands gpu_timer gpu_truth progress safe_text shim_library tool) | \
                         $(addprefix $(O)/,sim/libfashim_kernels.so simgpu/libcuda.so.1 simgpu/libsimkernels.so)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -Wl,-rpath,'$$ORIGIN/../../simgpu' -Wl,--disable-new-dtags -lcmocka -lm -ldl

$(O)/tests/cli/check_trace $(O)/tests/cli/query: $(O)/tests/cli/%: $(O)/tests/cli/%.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -ljansson -lsqlite3 -lm

# A program that LD_PRELOAD cannot reach.
$(O)/tests/cli/static: tests/cli/ended.c
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 -static -o $@ $<

# What `fashim doctor` is asked about: programs by their way to cuBLAS, and a driver.
doctor_cc = $(Q)$(CC) $(CPPFLAGS) -std=gnu11 $(WARNINGS)
$(O)/tests/cli/doctor/libcublas.so.13 $(O)/tests/cli/doctor/libgone.so: tests/cli/calls.c
	@mkdir -p $(@D)
	$(call say,CCLD,$@)
	$(doctor_cc) -D$(if $(filter libgone.so,$(@F)),OTHER,LIBRARY) -fPIC -shared -Wl,-soname,$(@F) -o $@ $<
$(O)/tests/cli/doctor/calls: tests/cli/calls.c $(O)/tests/cli/doctor/libcublas.so.13 $(O)/tests/cli/doctor/libgone.so
	$(call say,CCLD,$@)
	$(doctor_cc) -DCALLS -o $@ $< $(O)/tests/cli/doctor/libcublas.so.13 -Wl,--no-as-needed \
	  $(O)/tests/cli/doctor/libgone.so -Wl,-rpath,'$$ORIGIN'
$(O)/tests/cli/doctor/copy_inside $(O)/tests/cli/doctor/opener: tests/cli/calls.c
	@mkdir -p $(@D)
	$(call say,CCLD,$@)
	$(doctor_cc) -D$(if $(filter opener,$(@F)),OPENS,CONTAINS) -o $@ $<
$(O)/tests/cli/doctor/libcuda.so.1: tests/cli/driver.c tests/cli/driver_calls.c shim/real/driver_calls.def
	@mkdir -p $(@D)
	$(call say,CCLD,$@)
	$(doctor_cc) -fPIC -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^)

# Stands in for libfashim.so.
$(O)/tests/cli/fake.so: tests/cli/fake.c
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 -fPIC -shared -o $@ $<

# ---- demo ---------------------------------------------------------------------------------------
# The same program on the GPU where there is one, on the CPU stand-in elsewhere.

demo_gpu := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu)
demo_app  = $(O)/apps/$(if $(demo_gpu),gpu,sim)/demo
# On the CPU stand-in the fused kernel is emulated thread by thread and not faster: replace all the same.
# So short a run could not afford to learn anything, hence no budget.
demo_place = $(if $(demo_gpu),,LD_LIBRARY_PATH=$(O)/simgpu )
demo_env   = FASHIM_BUDGET=0 $(if $(demo_gpu),,FASHIM_MIN_SPEEDUP=0 )$(demo_place)
demo_tool  = $(O)/$(if $(demo_gpu),,sim/)fashim
demo_log   = $(O)/demo.jsonl

# A command, shown as it can be typed again, and what it says.
define demo_step
	$(Q)echo '$$ $(1)'
	$(Q)$(1)

endef

# There it is one program whose shim has no kernels for a GPU: they take long to compile.
$(O)/sim/fashim: $(O)/fashim
	@mkdir -p $(@D)
	$(Q)cp $< $@

demo: $(if $(demo_gpu),all apps-gpu,$(O)/sim/fashim $(SHIM_FOR_SIM) simgpu $(demo_app) $(demo_app).kernels) ## an unmodified program with and without the shim, then the report
	$(Q)rm -f $(demo_log) $(demo_log).live
	$(call demo_step,$(demo_place)$(demo_app))
	$(call demo_step,$(demo_env)$(demo_tool) run -o $(demo_log) -- $(demo_app))
	$(call demo_step,$(O)/fashim report $(demo_log))
	$(Q)echo 'The two checksums differ by the drift: the fused kernel rounds elsewhere.'
	$(Q)echo 'FASHIM_BUDGET=0: so short a run could not afford to learn anything otherwise.'
	$(Q)$(if $(demo_gpu),:,echo 'There is no GPU here: the program ran on the CPU stand-in, and speed was not measured. Its fused kernel is not faster, hence FASHIM_MIN_SPEEDUP=0. make builds the library for a GPU.')

# ---- lint and format ----------------------------------------------------------------------------

lint_c   = $(shell find shim kernels tools tests -name '*.[ch]')
lint_sh  = $(shell find tools tests -name '*.sh')
# What single tests are told by -D: places.
lint_paths := HOST_KERNELS HOPPER_KERNELS SIM_KERNELS TRACES REFERENCE BUILD_FOLDER TOOL KERNEL_BLOCKS CODE_FOLDER RULES_DOCS ODD_TRACES MOE_EXPERTS
lint_ok  = $(patsubst %,$(O)/lint/%.ok,$(filter %.c,$(lint_c)))
# Where glibc's own dlsym may be called by its name; everything else must use real_dlsym().
DLSYM_ALLOWED := shim/real/resolve.c

lint: lint-format lint-clang lint-cppcheck lint-shell lint-dlsym lint-rooms lint-waits ## everything that reads the sources and complains
.PHONY: lint-format lint-clang lint-cppcheck lint-shell lint-dlsym lint-rooms lint-waits rooms

lint-format:
	$(call say,FORMAT,'$(words $(lint_c)) files')
	$(Q)bad=$$(for file in $(lint_c); do clang-format --dry-run -Werror $$file 2>/dev/null || echo $$file; done); \
	    [ -z "$$bad" ] || { echo 'not formatted (make format):' $$bad; exit 1; }

# A second compiler's opinion on every C file, with the same warnings as errors.
lint-clang: $(lint_ok)

$(O)/lint/%.c.ok: %.c
	@mkdir -p $(@D)
	$(call say,CLANG,$<)
	$(Q)clang $(CPPFLAGS) -I$(K) $(lint_paths:%=-D%='""') $(CFLAGS) $(CFLAGS_$(*F)) -fsyntax-only -MMD -MP -MT $@ -MF $(@:.ok=.d) $<
	$(Q)touch $@

lint-cppcheck:
	$(call say,CPPCHECK,'shim tools')
	$(Q)command -v cppcheck >/dev/null || { echo '  cppcheck is not installed: skipped'; exit 0; }; \
	    cppcheck --quiet --std=c11 --enable=warning,portability --error-exitcode=1 --inline-suppr \
	    --suppress=missingIncludeSystem --suppress=ctuuninitvar -I. -D_GNU_SOURCE '-DElfW(type)=Elf64_\#\#type' shim tools

lint-shell:
	$(call say,SHELL,'$(words $(lint_sh)) scripts')
	$(Q)command -v shellcheck >/dev/null || { echo '  shellcheck is not installed: skipped'; exit 0; }; \
	    shellcheck $(lint_sh)

lint-dlsym:
	$(call say,DLSYM,shim)
	$(Q)! grep -nE '(^|[^_[:alnum:]])dlv?sym\(' $(filter-out $(DLSYM_ALLOWED),$(filter shim/%,$(lint_c))) \
	    | grep -vE '^[^:]*:[0-9]*:[[:space:]]*(/?\*|.*\*/)'

lint-waits:
	$(call say,WAITS,shim)
	$(Q)python3 tests/lint/waits.py tests/faults/quick_calls.def shim

lint-rooms: $(SHIM_OBJECTS) $(TOOL_FILES)
	$(call say,ROOMS,'shim tools')
	$(Q)python3 tests/lint/rooms.py shim/rooms.def $(O)
	$(Q)python3 tests/lint/rooms.py tools/rooms.def $(O)

# Fetches 400 MB for each toolkit: no part of lint.
TOOLKITS ?= $(O)/toolkits
.PHONY: toolkits
toolkits: ## does the shim compile with older toolkits? docs/toolkits.md (fetches 2 GB)
	$(Q)mkdir -p $(TOOLKITS)
	$(Q)sed '/^| toolkit/,$$d' docs/toolkits.md >$(TOOLKITS)/table
	$(Q)CC='$(CC)' tests/lint/toolkits.sh $(TOOLKITS) >>$(TOOLKITS)/table
	$(Q)mv $(TOOLKITS)/table docs/toolkits.md

rooms: $(SHIM_OBJECTS) $(TOOL_FILES) ## the rooms of shim and tools, and who uses whom
	$(Q)python3 tests/lint/rooms.py shim/rooms.def $(O) --print
	$(Q)python3 tests/lint/rooms.py tools/rooms.def $(O) --print

format: ## write the sources as .clang-format says
	$(Q)clang-format -i $(lint_c)

# ---- manual pages and completions ---------------------------------------------------------------
# All made of what the command says of itself.

$(O)/described/commands: $(O)/fashim tools/man/describe.sh tools/man/help.awk
	$(Q)rm -rf $(@D)
	$(Q)tools/man/describe.sh $(O)/fashim $(@D)

$(O)/man/fashim.7: $(O)/described/commands shim/log/log_format.h $(wildcard tools/man/*)
	$(call say,MAN,$(@D))
	$(Q)tools/man/pages.sh $(O)/fashim $(<D) shim/log/log_format.h $(@D)

$(O)/completion/fashim: $(O)/described/commands $(wildcard tools/completion/*)
	$(call say,COMPLETE,$(@D))
	$(Q)tools/completion/generate.sh $(<D) $(@D)

docs: $(O)/man/fashim.7 $(O)/completion/fashim ## manual pages and shell completions
all: docs
.PHONY: docs deb

# ---- install ------------------------------------------------------------------------------------

SHARE := $(DESTDIR)$(PREFIX)/share

install: all ## command, library, manual pages and completions into PREFIX, below DESTDIR
	$(Q)install -D -m 755 $(O)/fashim $(DESTDIR)$(PREFIX)/bin/fashim
	$(Q)install -D -m 644 $(O)/libfashim.so $(DESTDIR)$(PREFIX)/lib/fashim/libfashim.so
	$(Q)install -m 644 $(O)/libfashim_kernels.so $(DESTDIR)$(PREFIX)/lib/fashim/
	$(Q)install -D -m 644 $(O)/referee.py $(SHARE)/fashim/referee.py
	$(Q)install -d $(SHARE)/man/man1 $(SHARE)/man/man7 $(SHARE)/doc/fashim $(SHARE)/pkgconfig
	$(Q)install -m 644 $(O)/man/*.1 $(SHARE)/man/man1/
	$(Q)install -m 644 $(O)/man/*.7 $(SHARE)/man/man7/
	$(Q)install -m 644 README.md $(SHARE)/doc/fashim/
	$(Q)sed 's#@PREFIX@#$(PREFIX)#; s#@VERSION@#$(VERSION)#' tools/packaging/fashim.pc.in >$(SHARE)/pkgconfig/fashim.pc
	$(Q)install -D -m 644 $(O)/completion/fashim $(SHARE)/bash-completion/completions/fashim
	$(Q)install -D -m 644 $(O)/completion/_fashim $(SHARE)/zsh/site-functions/_fashim
	$(Q)install -D -m 644 $(O)/completion/fashim.fish $(SHARE)/fish/vendor_completions.d/fashim.fish
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))

uninstall: ## remove what install put there
	$(Q)rm -f $(DESTDIR)$(PREFIX)/bin/fashim $(SHARE)/man/man1/fashim.1 $(SHARE)/man/man1/fashim-*.1 \
	    $(SHARE)/man/man7/fashim.7 $(SHARE)/pkgconfig/fashim.pc $(SHARE)/bash-completion/completions/fashim \
	    $(SHARE)/zsh/site-functions/_fashim $(SHARE)/fish/vendor_completions.d/fashim.fish
	$(Q)rm -rf $(DESTDIR)$(PREFIX)/lib/fashim $(SHARE)/fashim $(SHARE)/doc/fashim

deb: all ## a Debian package in O
	$(Q)rm -rf $(O)/deb
	$(Q)$(MAKE) --no-print-directory install DESTDIR=$(abspath $(O))/deb PREFIX=/usr
	$(Q)tools/packaging/deb.sh $(abspath $(O))/deb $(VERSION) $(O)

# ---- a release ----------------------------------------------------------------------------------

DIST_ARCHS ?= 75 80 86 89 90 100 120
DIST       := fashim-$(VERSION)-linux-$(shell uname -m)
DIST_ROOT   = $(O)/dist/root/$(DIST)
# Two builds of one commit give the same bits.
DIST_TIME   = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0)

DIST_DEB   := fashim_$(VERSION)_$(shell dpkg --print-architecture 2>/dev/null).deb
dist_make   = +$(Q)$(MAKE) --no-print-directory O=$(O)/dist TOOLKIT=$(TOOLKIT) PORTABLE=1 ARCHS='$(DIST_ARCHS)'

dist: ## a tarball, a wheel and a Debian package for drivers of CUDA 12 and 13, all GPUs, and glibc from 2.28 on
	$(dist_make) all
	$(Q)python3 tests/unit/check_images.py $(O)/dist/kernels 550
	$(Q)rm -rf $(O)/dist/root
	$(dist_make) install DESTDIR=$(abspath $(DIST_ROOT)) PREFIX=
	$(Q)strip --strip-unneeded $(DIST_ROOT)/bin/fashim $(DIST_ROOT)/lib/fashim/*.so
	$(Q)tools/packaging/check_dist.sh $(DIST_ROOT) $(GLIBC) '$(CURDIR)'
	$(Q)tar -C $(O)/dist/root --sort=name --mtime=@$(DIST_TIME) --owner=0 --group=0 --numeric-owner -c $(DIST) | \
	    gzip -9n >$(O)/$(DIST).tar.gz
	$(Q)python3 tools/packaging/wheel.py $(DIST_ROOT) $(VERSION) $(GLIBC) $(DIST_TIME) $(O)
	$(if $(shell command -v dpkg-shlibdeps),$(dist_make) deb,@echo '  no dpkg-shlibdeps: no Debian package')
	$(Q)[ ! -e $(O)/dist/$(DIST_DEB) ] || mv $(O)/dist/$(DIST_DEB) $(O)/
	$(Q)cd $(O) && sha256sum $(DIST).tar.gz fashim-$(VERSION)-*.whl $$(ls $(DIST_DEB) 2>/dev/null) | tee $(DIST).sha256
.PHONY: dist

test-dist: ## what `make dist` made, tried in an empty Debian without compilers (root, debootstrap)
	$(Q)tests/dist.sh $(O) $(O)/$(DIST).tar.gz $(O)/fashim-$(VERSION)-*.whl $(wildcard $(O)/$(DIST_DEB))
.PHONY: test-dist

readme: $(O)/fashim $(O)/tests/cli/fake.so ## write anew what the README quotes of the command
	$(Q)tests/cli/readme.sh $(O) --update
.PHONY: readme
