#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_launch.sh BUILD [bound]: what an intercepted cuLaunchKernel costs more than a bare one, over the
# simulated driver: ns and ratio (of a driver that does next to nothing: a real one takes about 2000 ns), and
# instructions where valgrind can count them. With `bound` only these, as a test: they do not vary with the
# machine's load.

set -u
build=$(cd "${1:?usage: bench_launch.sh BUILD [bound]}" && pwd)
program=$build/tests/unit/bench_launch
bound=90 # instructions for a launch that nobody watches

export LD_LIBRARY_PATH=$build/simgpu
export FASHIM_OUT=none

# Instructions of a call, from the difference of two runs.
instructions()
{
	local few many
	few=$(count "$1" 500) && many=$(count "$1" 1500) && echo $(((many - few) / 1000))
}

count()
{
	local preload=()
	[ -z "$1" ] || preload=(env "LD_PRELOAD=$1")
	"${preload[@]}" valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" count "$2" 2>&1 |
		sed -n 's/.*Collected : \([0-9]*\).*/\1/p' | grep .
}

compare_instructions()
{
	if ! command -v valgrind >/dev/null; then
		echo "ok 1 # SKIP instructions of a launch: there is no valgrind"
		return 0
	fi
	if ! bare=$(instructions '') || ! under=$(instructions "$build/libfashim.so"); then
		echo "not ok 1 - instructions of a launch: valgrind could not count"
		return 1
	fi
	echo "# instructions of a launch: bare $bare, under the shim $under"
	if [ $((under - bare)) -le "$bound" ] && [ $((under - bare)) -ge 0 ]; then
		echo "ok 1 - an uninteresting launch costs $((under - bare)) instructions, at most $bound"
	else
		echo "not ok 1 - an uninteresting launch costs $((under - bare)) instructions, not 0 to $bound"
		return 1
	fi
}

if [ "${2-}" != bound ]; then
	for what in time watched; do
		bare=$("$program" $what) && under=$(LD_PRELOAD=$build/libfashim.so "$program" $what) || exit 1
		awk -v bare="$bare" -v under="$under" -v what="$what" 'BEGIN {
			printf "%-36s bare %7.1f ns   under the shim %7.1f ns   %+.1f ns, x %.3f\n",
			       what == "time" ? "launch, no chain" : "launch, a chain waits", bare, under,
			       under - bare, under / bare }'
	done
fi
compare_instructions
