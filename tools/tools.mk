# SPDX-License-Identifier: Apache-2.0
# The command `fashim`, and the targets around the sources: demo, lint, format, install.

TOOL_OBJECTS := $(patsubst %.c,$(O)/%.o,$(wildcard tools/*.c))
TOOL_LIBS    := -ljansson -lsmartcols -lm

all: $(O)/fashim

$(O)/fashim: $(TOOL_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS)

# ---- tests of the command -----------------------------------------------------------------------

CLI_TEST_FILES := $(O)/fashim $(addprefix $(O)/tests/cli/,test_scan ended live static fake.so)
CLI_TESTS      := tests/cli/run.sh:$(O)

test-cli: $(CLI_TEST_FILES) ## the tests of the command
	$(Q)tests/cli/run.sh $(O)

$(O)/tests/cli/ended $(O)/tests/cli/live: $(O)/tests/cli/%: tests/cli/%.c shim/log_format.h shim/reasons.def | setup
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 $(WARNINGS) -o $@ $<

$(O)/tests/cli/test_scan: $(addprefix $(O)/,tests/cli/test_scan.o tools/sample_scan.o tools/log_name.o)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson -lm

# A program that LD_PRELOAD cannot reach.
$(O)/tests/cli/static: tests/cli/ended.c | setup
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 -static -o $@ $<

# Stands in for libfashim.so.
$(O)/tests/cli/fake.so: tests/cli/fake.c | setup
	@mkdir -p $(@D)
	$(call say,CCLD,$<)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 -fPIC -shared -o $@ $<

# ---- demo ---------------------------------------------------------------------------------------
# The same program on the GPU where there is one, on the CPU stand-in elsewhere.

demo_gpu := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu)
demo_app  = $(O)/apps/$(if $(demo_gpu),gpu,sim)/demo
# On the CPU stand-in the fused kernel is emulated thread by thread and not faster: replace all the same.
demo_env  = $(if $(demo_gpu),,FASHIM_MIN_SPEEDUP=0 LD_LIBRARY_PATH=$(abspath $(O))/simgpu$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH})
demo_log  = $(O)/demo.jsonl

demo: all $(if $(demo_gpu),apps-gpu,simgpu apps-sim) ## an unmodified program with and without the shim, then the report
	$(Q)rm -f $(demo_log) $(demo_log).live
	$(Q)echo '$$ $(demo_app)'
	$(Q)$(demo_env) $(demo_app)
	$(Q)echo '$$ fashim run -o $(demo_log) -- $(demo_app)'
	$(Q)$(demo_env) $(O)/fashim run -o $(demo_log) -- $(demo_app)
	$(Q)echo '$$ fashim report $(demo_log)'
	$(Q)$(O)/fashim report $(demo_log)
	$(Q)$(if $(demo_gpu),:,echo 'Simulated timings: there is no GPU here and the program ran on the CPU stand-in.')

# ---- lint and format ----------------------------------------------------------------------------

lint_c   = $(shell find shim kernels tools tests -name '*.[ch]')
lint_sh  = $(shell find tools tests -name '*.sh')
lint_ok  = $(patsubst %,$(O)/lint/%.ok,$(filter %.c,$(lint_c)))
# Where glibc's own dlsym may be called by its name; everything else must use real_dlsym().
DLSYM_ALLOWED := shim/resolve.c

lint: lint-format lint-clang lint-cppcheck lint-shell lint-dlsym ## everything that reads the sources and complains
.PHONY: test-cli lint-format lint-clang lint-cppcheck lint-shell lint-dlsym

lint-format:
	$(call say,FORMAT,'$(words $(lint_c)) files')
	$(Q)bad=$$(for file in $(lint_c); do clang-format --dry-run -Werror $$file 2>/dev/null || echo $$file; done); \
	    [ -z "$$bad" ] || { echo 'not formatted (make format):' $$bad; exit 1; }

# A second compiler's opinion on every C file, with the same warnings as errors.
lint-clang: $(lint_ok)

$(O)/lint/%.c.ok: %.c | setup
	@mkdir -p $(@D)
	$(call say,CLANG,$<)
	$(Q)clang $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(*F)) -fsyntax-only -MMD -MP -MT $@ -MF $(@:.ok=.d) $<
	$(Q)touch $@

lint-cppcheck:
	$(call say,CPPCHECK,'shim tools')
	$(Q)command -v cppcheck >/dev/null || { echo '  cppcheck is not installed: skipped'; exit 0; }; \
	    cppcheck --quiet --std=c11 --enable=warning,portability --error-exitcode=1 --inline-suppr \
	    --suppress=missingIncludeSystem -I. -D_GNU_SOURCE shim tools

lint-shell:
	$(call say,SHELL,'$(words $(lint_sh)) scripts')
	$(Q)command -v shellcheck >/dev/null || { echo '  shellcheck is not installed: skipped'; exit 0; }; \
	    shellcheck $(lint_sh)

lint-dlsym:
	$(call say,DLSYM,shim)
	$(Q)! grep -nE '(^|[^_[:alnum:]])dlv?sym\(' $(filter-out $(DLSYM_ALLOWED),$(filter shim/%,$(lint_c))) \
	    | grep -vE '^[^:]*:[0-9]*:[[:space:]]*(/?\*|.*\*/)'

format: ## write the sources as .clang-format says
	$(Q)clang-format -i $(lint_c)

# ---- install ------------------------------------------------------------------------------------

install: all ## PREFIX/bin/fashim and PREFIX/lib/fashim/libfashim.so, below DESTDIR
	$(Q)install -D -m 755 $(O)/fashim $(DESTDIR)$(PREFIX)/bin/fashim
	$(Q)install -D -m 644 $(O)/libfashim.so $(DESTDIR)$(PREFIX)/lib/fashim/libfashim.so
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))

uninstall: ## remove what install put there
	$(Q)rm -f $(DESTDIR)$(PREFIX)/bin/fashim $(DESTDIR)$(PREFIX)/lib/fashim/libfashim.so
	$(Q)rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/lib/fashim 2>/dev/null || true

readme: $(O)/fashim ## write the README's generated tables (options, reasons) anew
	$(Q)tests/cli/readme.sh $(O) --update
.PHONY: readme
