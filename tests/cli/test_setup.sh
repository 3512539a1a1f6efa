#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# test_setup.sh BUILD: tools/setup.sh on machines of paper. A folder of links is all that PATH has; apt-get, id,
# sudo and pip say what they were asked and change nothing real. Ends with "N passed, N failed".

set -u
setup=$(cd "$(dirname "$0")/../../tools" && pwd)/setup.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# judge NAME EXPECTED FOUND
judge()
{
	if [ "$2" = "$3" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s: expected\n%s\n  found\n%s\n' "$1" "$2" "$3"
	fi
}

# machine NAME COMMAND…: a folder whose bin/ has the shell's own tools and these.
machine()
{
	root=$work/$1
	mkdir -p "$root/bin" "$root/cuda/bin" "$root/cuda/include"
	for command in sh mkdir rm mv cat sed tr grep sort ln chmod; do
		ln -s "$(command -v $command)" "$root/bin/$command"
	done
	shift
	for command; do
		printf '#!/bin/sh\necho "%s $*" >>"%s/asked"\n' "$command" "$root" >"$root/bin/$command"
		chmod +x "$root/bin/$command"
	done
	cp "$root/bin/sed" "$root/cuda/bin/nvcc"
	: >"$root/cuda/include/cublas_v2.h"
	: >"$root/asked"
}

# A compiler that has every header but one (NONE: all), a user, a pip.
compiler()
{
	printf '#!/bin/sh\nif grep -q "<%s>"; then exit 1; fi\n' "$1" >"$root/bin/cc"
	chmod +x "$root/bin/cc"
}
user()
{
	printf '#!/bin/sh\necho %s\n' "$1" >"$root/bin/id"
	chmod +x "$root/bin/id"
}

# What setup says, its status, and what it asked of others; NEEDS: build or build-test.
run()
{
	PATH=$root/bin CC='' CUDA=${CUDA_THERE-$root/cuda} "$root/bin/sh" "$setup" "$root/toolkit" "$1" 2>&1 |
		sed "s#$root#ROOT#g"
	echo "status ${PIPESTATUS[0]}"
	grep -E '^(apt-get|python3|sudo)' "$root/asked" | sed "s#$root#ROOT#g; s/ -o [^ ]*//g"
}

# The headers of this machine would be found where they are; only what no machine has can be missing here.
# shellcheck disable=SC2016 # the text that setup.sh has
sed 's#\[ -e "/usr/include/$1" \] || \[ -e "/usr/local/include/$1" \] ||#false ||#' "$setup" >"$work/setup.sh"
setup=$work/setup.sh
grep -q 'false ||' "$setup" || { echo 'setup.sh looks for headers in another way'; failed=1; }

machine complete cc c++ awk gzip python3 apt-get
compiler NONE
user 0
judge "all there" "status 0" "$(run build)"

machine compiler_missing awk gzip python3 apt-get
user 1000
judge "no rights: one line, nothing done" \
	"setup: missing; run: sudo apt-get install gcc g++ libc6-dev libjansson-dev libsmartcols-dev libsqlite3-dev
status 1" "$(run build | grep -v '^python3')"

machine no_apt c++ awk gzip python3
compiler jansson.h
user 0
judge "no apt-get" "setup: missing, and there is no apt-get to install it: libjansson-dev
status 1" "$(run build)"

machine tests_only c++ awk gzip python3 apt-get
compiler cmocka.h
user 0
judge "what only tests need is not asked for by a build" "status 0" "$(run build)"
judge "but by tests" "setup: installing libcmocka-dev with apt-get
status 0
apt-get install -y -qq --no-install-recommends libcmocka-dev" "$(ln -sf "$(command -v env)" "$root/bin/env"; run build-test)"

machine toolkit_missing c++ awk gzip apt-get
compiler NONE
user 1000
judge "nothing is fetched before all that it needs is there" \
	"setup: missing; run: sudo apt-get install python3-pip" \
	"$(CUDA_THERE=$root/toolkit/cuda run build | sed 's/ ca-certificates$//; q')"

machine other_toolkit c++ awk gzip python3 apt-get
compiler NONE
user 0
judge "a toolkit that is none" "setup: no CUDA toolkit with cuBLAS in CUDA=ROOT/none; leave CUDA unset to have one fetched
status 1" "$(CUDA_THERE=$root/none run build)"

# make compiles nothing meanwhile, however many jobs it has.
machine make_first nproc
user 0
for command in make uname dirname find head awk env; do
	ln -sf "$(command -v $command)" "$root/bin/$command"
done
printf '#!/bin/sh\n%s 2\nexit 1\n' "$(command -v sleep)" >"$root/bin/apt-get"
chmod +x "$root/bin/apt-get"
judge "make waits for setup, which says what it is about to do" "setup: installing PACKAGES with apt-get
setup: could not install" \
	"$(cd "$(dirname "$0")/../.." && env -i PATH="$root/bin" make -j8 O="$root/build" demo 2>&1 | grep -v '^make: \*\*\*' | sed 's/ install .*/ install/; s/installing .* with/installing PACKAGES with/')"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
