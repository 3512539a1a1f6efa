#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fuzz.sh FUZZ SECONDS [TARGET...]: libFuzzer for so long on each target of tests/readers/targets.c, from the
# files of tests/readers/corpus on. What it found interesting stays in a folder beside FUZZ, and begins the next
# run; an input that a target does not survive is kept there as TARGET-crash-..., and named. Ends with
# "N passed, N failed" over the targets.

set -u
fuzz=$(realpath "${1:?usage: fuzz.sh FUZZ SECONDS [TARGET...]}")
seconds=${2:?usage: fuzz.sh FUZZ SECONDS [TARGET...]}
shift 2
corpus=$(cd "$(dirname "$0")/corpus" && pwd)
passed=0
failed=0

# shellcheck disable=SC2046 # a list of words
[ $# -gt 0 ] || set -- $(cd "$corpus" && echo *)

for target; do
	found=$fuzz.found/$target
	mkdir -p "$found"
	if READER=$target FASHIM_LOG=none "$fuzz" "$found" "$corpus/$target" -max_total_time="$seconds" \
		-max_len=8192 -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=512 -verbosity=0 -print_final_stats=1 \
		-artifact_prefix="$fuzz.found/$target-" >"$found.log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "$target:"
		grep -E 'ERROR|runtime error|SUMMARY|Test unit' "$found.log" | sed 's/^/  /'
	fi
	printf '%-6s %s inputs\n' "$target" "$(sed -nE 's/.*number_of_executed_units: ([0-9]+)/\1/p' "$found.log")"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
