#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# sanitized.sh BUILD: a part of the zoo under the shim, all built with SAN=address,undefined: a case of each kind
# ends as it would alone, and is replaced. The runtime has to be the first in the process, the shim is the second.
# Ends with "N passed, N failed".

set -u
build=$(cd "${1:?usage: sanitized.sh BUILD}" && pwd)
runtime=$(gcc -print-file-name=libasan.so)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# under PROGRAM [ARGUMENT|NAME=VALUE...]
under()
{
	local program=$1
	local -a words=() variables=()
	shift
	for word; do
		case $word in
		*=*) variables+=("$word") ;;
		*) words+=("$word") ;;
		esac
	done
	rm -f "$work"/log.jsonl*
	if env -i PATH="$PATH" LD_LIBRARY_PATH="$build/simgpu" FASHIM_MIN_SPEEDUP=0 FASHIM_OUT="$work/log.jsonl" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		${variables[@]+"${variables[@]}"} LD_PRELOAD="$runtime:$build/libfashim.so" timeout -k 5 600 \
		"$program" ${words[@]+"${words[@]}"} >"$work/said" 2>&1 &&
		grep -q '"replaced":[1-9]' "$work/log.jsonl"; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	printf '%s %s:\n' "${program##*/}" "$*"
	grep -E -A 20 'runtime error|ERROR: ' "$work/said" | head -40
	tail -n 1 "$work/log.jsonl" | cut -c 1-300
}

apps=$build/apps/sim
for case in bert p_copied p_partly_cleared k_rewritten outputs_edited copies_read address_array two_threads \
	two_contexts; do
	under "$apps/hazards" "$case"
done
under "$apps/hazards" p_copied APP_KERNELS=own
under "$apps/hazards" copies_other_stream SIMGPU_ASYNC=200
under "$apps/hazards" graph_inputs_go
under "$apps/hazards" graph_memory_full
under "$apps/hazards" graph_o_alone FASHIM_GRAPHS=trust
under "$apps/hazards" p_copied FASHIM_RECORD="$work/trace"
under "$apps/unseen" lengths
under "$apps/unwound" SIMGPU_LOG=/dev/null
under "$apps/forks"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
