#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# interposers.sh BUILD: the shim beside others that stand between a program and the driver (wrapper.c), preloaded before
# and behind it. What the program reads is what it reads without the shim; where the shim cannot see who reads, nothing is
# replaced, and the log has the reason. Ends with "N passed, N failed".

set -u
build=$(cd "${1:?usage: interposers.sh BUILD}" && pwd)
here=$build/tests/preload
shim=$build/sim/libfashim.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# P, read at the end: no kernel of the shim's has any part in it.
program()
{
	LD_LIBRARY_PATH=$build/simgpu SIMGPU_ARCH=80 FASHIM_MIN_SPEEDUP=0 FASHIM_BUDGET=0 FASHIM_LOG=error FASHIM_OUT=$work/log \
		LD_PRELOAD=$1 timeout 60 "$build/apps/sim/hazards" p_copied 2>&1 | grep -v '^O\['
}

# beside PRELOAD WORD: the log of the run has the word.
beside()
{
	local found

	rm -f "$work/log"
	found=$(program "$1")
	if [ "$found" = "$plain" ] && grep -q "$2" "$work/log"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s: expected %s and %s\n  found %s\n' "$1" "$plain" "$2" "$found"
		tail -n 1 "$work/log" | cut -c 1-400
	fi
}

plain=$(program "")
replaced='"replaced":[1-9]'
beside "$shim" "$replaced"
for wrapper in asks finds overrides; do
	beside "$here/libwrapper_$wrapper.so:$shim" "$replaced"
done
beside "$shim:$here/libwrapper_finds.so" "$replaced"
beside "$here/libwrapper_asks.so:$shim:$here/libwrapper_finds.so" "$replaced"
beside "$here/libwrapper_asks.so:$shim:$here/libwrapper_overrides.so" '"bypassed":[1-9]'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
