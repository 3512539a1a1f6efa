#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# races.sh BUILD: the programs with several threads under the shim, and what threads do in the tests of
# its parts, all built with SAN=thread, held against the thread sanitizer. Its runtime has to be the
# first in the process, the shim is the second.
# races.supp names what is no race, and why. Ends with "N passed, N failed".

set -u
build=$(cd "${1:?usage: races.sh BUILD}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
runtime=$(gcc -print-file-name=libtsan.so)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# under STATUS PROGRAM [ARGUMENT|NAME=VALUE...]: ends it with that status?
under()
{
	local expected=$1 program=$2 status
	local -a words=() variables=()
	shift 2
	for word; do
		case $word in
		*=*) variables+=("$word") ;;
		*) words+=("$word") ;;
		esac
	done
	rm -f "$work/log.jsonl"*
	timeout -k 5 300 env -i PATH="$PATH" LD_LIBRARY_PATH="$build/simgpu" FASHIM_MIN_SPEEDUP=0 \
		FASHIM_OUT="$work/log.jsonl" TSAN_OPTIONS="suppressions=$here/races.supp" \
		${variables[@]+"${variables[@]}"} LD_PRELOAD="$runtime:$build/libfashim.so" \
		"$program" ${words[@]+"${words[@]}"} >"$work/said" 2>&1
	status=$?
	[ "$status" = "$expected" ] && return
	printf '%s %s: status %s, expected %s\n' "${program##*/}" "$*" "$status" "$expected"
	sed -n '/WARNING/,/^SUMMARY/p' "$work/said" | head -60
	return 1
}

count()
{
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
}

# A race is found where there is one, with the shim in the process.
cat >"$work/racy.c" <<'C'
#include <pthread.h>
static int shared;
static void *add(void *unused)
{
	for (int i = 0; i < 100000; i++)
		shared++;
	return unused;
}
int main(void)
{
	pthread_t other;

	pthread_create(&other, 0, add, 0);
	add(0);
	pthread_join(other, 0);
	return 0;
}
C
gcc -g -fsanitize=thread -o "$work/racy" "$work/racy.c" || exit 1
count under 66 "$work/racy"

replaced()
{
	under 0 "$@" || return
	grep -q '"replaced":[1-9]' "$work/log.jsonl" && return
	printf '%s: nothing was replaced\n' "$*"
	return 1
}

apps=$build/apps/sim
for case in two_threads p_other_thread mask_other_thread two_contexts host_function; do
	count replaced "$apps/hazards" $case
	count replaced "$apps/hazards" $case SIMGPU_ASYNC=200
done
count under 0 "$apps/hazards" per_thread_stream
for case in graph_two_threads graph_two_threads_later graph_per_thread; do
	count under 0 "$apps/hazards" $case SIMGPU_ASYNC=2000
done
count replaced "$apps/hazards" copies_other_stream SIMGPU_ASYNC=200
count replaced "$apps/hazards" outputs_other_stream SIMGPU_ASYNC=200
count replaced "$apps/waits" SIMGPU_ASYNC=1 APP_KERNELS=own
count replaced "$apps/forks"

unit()
{
	TSAN_OPTIONS="suppressions=$here/races.supp" timeout -k 5 300 "$build/tests/unit/$1" >"$work/said" 2>&1 && return
	echo "$1"
	sed -n '/WARNING/,/^SUMMARY/p' "$work/said" | head -60
	return 1
}
count unit test_exit
count unit test_log

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
