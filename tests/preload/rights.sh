#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# rights.sh BUILD: a set-uid program that is linked with the shim takes nothing from who starts it: no file, no
# word, no replacement. Who is not root, or has a folder for temporary files where the bit does nothing, can
# only see that the program is replaced without the bit. Ends with "N passed, N failed".

set -u
build=$(cd "${1:?usage: rights.sh BUILD}" && pwd)
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
		printf '%s: expected %s\n  found %s\n' "$1" "$2" "$3"
	fi
}

mkdir "$work/out"
cp "$build/sim/libfashim.so" "$build"/simgpu/*.so* "$build/apps/sim/demo.kernels" "$work/"
cc -o "$work/demo" "$build"/tests/apps/{demo,app,app_aten}.o -Wl,--no-as-needed -L"$work" -l:libfashim.so \
	-l:libcublas.so.13 -l:libcuda.so.1 -Wl,-rpath,"$work" -Wl,-rpath-link,"$work" -ldl -lpthread -lm || exit 1

# What the program says, and what lies in the folder then.
started()
{
	rm -f "$work"/out/*
	SIMGPU_ARCH=80 FASHIM_MIN_SPEEDUP=0 FASHIM_BUDGET=0 FASHIM_LOG=$1 FASHIM_OUT=$work/out/log.jsonl FASHIM_RECORD=$work/out/trace \
		"$work/demo" 5 2>&1
	ls "$work/out"
}

plain=$(FASHIM=off started none)
replaced=$(started none)
judge "without the bit" "log.jsonl trace" "$(tail -n 2 <<<"$replaced" | tr '\n' ' ' | sed 's/ $//')"
chmod 755 "$work" && chmod 777 "$work/out" && chmod a+rX "$work"/*
# A process with more rights than its caller ignores such a preload without a word.
if [ "$(id -u)" = 0 ] && chown 12345 "$work/demo" && chmod 4755 "$work/demo" &&
	! LD_PRELOAD=$work/none.so "$work/demo" 1 2>&1 | grep -q 'cannot be preloaded'; then
	judge "with the bit" "$plain" "$(started debug)"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
