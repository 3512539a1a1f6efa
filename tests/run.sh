#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh JOBS PROGRAM[:ARGUMENT...]...: runs test programs, JOBS at a time, and prints one line for each: how
# many of its tests passed, how long it took and how much processor time, which does not grow with what else
# the machine does; what it said in full where one failed. A program counts its tests in TAP (cmocka does when
# asked) or ends with "N passed, N failed". One that dies, or runs no test at all, has failed, and so has one
# that is not done in TEST_TIMEOUT seconds: that is for those that hang. Ends with "N passed, N failed" over
# all programs.

set -u
jobs=${1:?usage: run.sh JOBS PROGRAM[:ARGUMENT...]...}
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
limit=${TEST_TIMEOUT:-7200}
TIMEFORMAT='%R %U %S'

unset "${!FASHIM@}" "${!SIMGPU@}" "${!APP_@}" LD_PRELOAD
export CMOCKA_MESSAGE_OUTPUT=TAP

# run_one NUMBER PROGRAM[:ARGUMENT...]: leaves NUMBER.out (all it said) and NUMBER.count ("passed failed").
run_one()
{
	local number=$1 program=${2%%:*} passed failed skipped status name line
	local -a words
	IFS=: read -ra words <<<"$2"
	words=("${words[@]:1}")

	name=${program#*tests/}
	name="${name##*/tests/}${words[*]:+ ${words[*]##*/}}"
	{ time timeout -k 5 "$limit" "$program" ${words[@]+"${words[@]}"} >"$work/$number.out" 2>&1 </dev/null; } 2>"$work/$number.time"
	status=$?
	passed=$(grep -E '^ok [0-9]+' "$work/$number.out" | grep -cv '# SKIP')
	skipped=$(grep -cE '^(not )?ok [0-9]+ # SKIP' "$work/$number.out") # cmocka says "not ok" of those
	failed=$(grep -E '^not ok [0-9]+' "$work/$number.out" | grep -cv '# SKIP')
	if line=$(grep -oE '^[0-9]+ passed, [0-9]+ failed$' "$work/$number.out" | tail -1) && [ -n "$line" ]; then
		passed=$((passed + ${line%% *}))
		line=${line#*, }
		failed=$((failed + ${line%% *}))
	fi
	if [ "$failed" = 0 ] && { [ "$status" != 0 ] || [ $((passed + skipped)) = 0 ]; }; then
		echo "$name: status $status after $passed tests" >>"$work/$number.out"
		failed=1
	fi
	echo "$passed $failed" >"$work/$number.count"
	{
		printf '  %-4s %-34s %4d passed' "$([ "$failed" = 0 ] && echo ok || echo FAIL)" "$name" "$passed"
		[ "$failed" = 0 ] || printf ', %d failed' "$failed"
		[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
		awk '{ printf "  %.0f s, processor %.0f s\n", $1, $2 + $3 }' "$work/$number.time"
		[ "$failed" = 0 ] || sed 's/^/      /' "$work/$number.out"
	} >"$work/$number.line"
	cat "$work/$number.line"
}

number=0
for program; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
		wait -n
	done
	number=$((number + 1))
	run_one $number "$program" &
done
wait

passed=0
failed=0
for ((i = 1; i <= number; i++)); do
	read -r p f <"$work/$i.count" || { p=0 f=1; }
	passed=$((passed + p))
	failed=$((failed + f))
done
cat "$work"/*.time | awk -v wall=$SECONDS -v programs=$number '
	{ busy += $2 + $3 } END { printf "  all  %d programs  %.0f s, processor %.0f s\n", programs, wall, busy }'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
