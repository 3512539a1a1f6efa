#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compute-sanitizer over the kernels by themselves, one small case per variant, no shim.
#
#     sanitize_kernels.sh KERNEL_CHECK [VARIANT [KERNEL_CHECK OPTION...]]
#
# VARIANT: part of the names. SANITIZE_TOOLS: some of the four. API errors are not reported: a symbol that
# is not in the image is asked for and found missing. A line per tool; what a tool found follows its line. A
# tool passes when it reports nothing AND kernel_check ran at least one kernel and found all results right.
set -u
check=$1
variant=${2:-}
shift $(($# > 2 ? 2 : $#))
command -v compute-sanitizer >/dev/null || {
	echo "skipped: no compute-sanitizer here"
	exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for tool in ${SANITIZE_TOOLS:-memcheck racecheck synccheck initcheck}; do
	timeout "${SANITIZE_TIMEOUT:-280}" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
		"$check" -s ${variant:+-k "$variant"} "$@" >"$work/$tool" 2>&1
	status=$?
	found=$(sed -n 's/^========= .*SUMMARY: \([0-9]*\) .*/\1/p' "$work/$tool" | tail -n 1)
	runs=$(sed -n 's/^\([0-9]*\) runs, 0 wrong$/\1/p' "$work/$tool")
	if [ $status -eq 0 ] && [ "${found:-none}" = 0 ] && [ "${runs:-0}" -gt 0 ]; then
		echo "$tool: ok, $runs kernels"
	else
		failed=1
		echo "$tool: FAILED, status $status, ${found:-unknown} reports, ${runs:-no good} runs"
		grep -m 24 '^=========' "$work/$tool"
		tail -n 4 "$work/$tool"
	fi
done
exit $failed
