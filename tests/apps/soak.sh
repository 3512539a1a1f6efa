#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# soak.sh BUILD [short]: does what the shim holds grow as long as a program runs? Each kind of round of
# tests/apps/soak.c, plain and under the shim: between a fifth of the rounds and their end the process
# under the shim may gain no more memory than the plain one (but for a little), no descriptor, only so
# much log, and rounds may not take longer and longer. Ends with "N passed, N failed".

set -u
build=$(cd "${1:?usage: soak.sh BUILD [short]}" && pwd)
length=${2:-long}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

MEMORY=2048 # kB that may be gained: what the allocator of libc keeps in pieces
MODULES=512 # the same where a module is loaded anew 400 times
LOG=65536   # bytes
SITE=800    # bytes for each site that was not there before: what it is, and that it was forgotten

# run KIND ROUNDS [NAME=VALUE...]: sets first and last to "memory descriptors log ns".
run()
{
	local kind=$1 rounds=$2 said
	shift 2
	said=$(env -i PATH="$PATH" LD_LIBRARY_PATH="$build/simgpu" SIMGPU_ARCH=80 "$@" \
		timeout -k 5 3600 "$build/apps/sim/soak" "$kind" "$rounds" 2>&1) || {
		printf '%s: %s\n' "$kind" "$said"
		return 1
	}
	mapfile -t lines < <(sed -nE 's/.*memory ([0-9]+) descriptors ([0-9]+) log ([0-9]+) ns ([0-9]+)/\1 \2 \3 \4/p' <<<"$said")
	read -ra first <<<"${lines[0]}"
	read -ra last <<<"${lines[1]}"
}

# soak KIND ROUNDS LOG [MEMORY]
soak()
{
	local kind=$1 rounds=$2 log=$3 memory=${4:-$MEMORY} plain wrong=""

	run "$kind" "$rounds" || return
	plain=$((last[0] - first[0]))
	rm -f "$work"/log*
	run "$kind" "$rounds" LD_PRELOAD="$build/sim/libfashim.so" FASHIM_OUT="$work/log" FASHIM_MIN_SPEEDUP=0 || return
	printf '%s %s: memory %s to %s kB (plain gains %s), descriptors %s to %s, log %s to %s bytes, %s to %s ns a round\n' \
		"$kind" "$rounds" "${first[0]}" "${last[0]}" "$plain" "${first[1]}" "${last[1]}" \
		"${first[2]}" "${last[2]}" "${first[3]}" "${last[3]}"
	[ "${first[2]}" -gt 0 ] || wrong="$wrong no log;"
	[ $((last[0] - first[0] - plain)) -le "$memory" ] || wrong="$wrong memory grows;"
	[ "${last[1]}" -le "${first[1]}" ] || wrong="$wrong descriptors stay open;"
	[ $((last[2] - first[2])) -le "$log" ] || wrong="$wrong the log grows;"
	[ "${last[3]}" -le $((2 * first[3])) ] || wrong="$wrong rounds take longer;"
	[ -z "$wrong" ] || {
		printf '%s:%s\n' "$kind" "$wrong"
		return 1
	}
}

count()
{
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
}

case $length in
short)
	count soak chains 3000 $LOG
	count soak threads 1000 $LOG
	count soak modules 400 $LOG $MODULES
	;;
*)
	count soak chains 100000 $LOG
	count soak sites 10000 $((10000 * SITE))
	count soak threads 1000 $LOG
	count soak modules 1000 $LOG $MODULES
	;;
esac

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
