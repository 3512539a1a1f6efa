#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fuzz.sh FUZZ SECONDS [TARGET...]: libFuzzer for so long on each target of tests/readers/targets.c, from the
# files of tests/readers/corpus on. What it found interesting stays in a folder beside FUZZ, and begins the next
# run; an input that a target does not survive is kept there as TARGET-crash-..., and named. Seconds are the
# clock's; how many of the processor's a target had is said beside its inputs, and at the end for all. Ends with
# "N passed, N failed" over the targets.

set -u
fuzz=$(realpath "${1:?usage: fuzz.sh FUZZ SECONDS [TARGET...]}")
seconds=${2:?usage: fuzz.sh FUZZ SECONDS [TARGET...]}
shift 2
corpus=$(cd "$(dirname "$0")/corpus" && pwd)
passed=0
failed=0
tenths=0 # of a second of the processor
TIMEFORMAT='%1U %1S'

# shellcheck disable=SC2046 # a list of words
[ $# -gt 0 ] || set -- $(cd "$corpus" && echo *)

for target; do
	found=$fuzz.found/$target
	mkdir -p "$found"
	if { time READER=$target FASHIM_LOG=none "$fuzz" "$found" "$corpus/$target" -max_total_time="$seconds" \
		-max_len=8192 -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=512 -verbosity=0 -print_final_stats=1 \
		-artifact_prefix="$fuzz.found/$target-" >"$found.log" 2>&1; } 2>"$found.time"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "$target:"
		grep -E 'ERROR|runtime error|SUMMARY|Test unit' "$found.log" | sed 's/^/  /'
	fi
	read -r user system <"$found.time"
	cpu=$((10#${user/[.,]/} + 10#${system/[.,]/}))
	tenths=$((tenths + cpu))
	printf '%-6s %s inputs, %s.%s s of the processor\n' "$target" \
		"$(sed -nE 's/.*number_of_executed_units: ([0-9]+)/\1/p' "$found.log")" $((cpu / 10)) $((cpu % 10))
done
echo "$((tenths / 600)) minutes of the processor in all"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
