#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compute-sanitizer memcheck over the compiled programs, with the shim in them.
#
#     sanitize.sh LIBFASHIM OUTDIR [PROGRAM…]
#
# API errors are not reported: asking for a kernel's parameters until the driver says "no more" is how
# that call is meant to be used. A program passes when memcheck finds nothing AND the log shows that chains were replaced: a check
# of a run in which the shim did nothing would prove nothing.
set -u
lib=$(realpath "$1")
out=$2
shift 2
here=$(dirname "$0")
programs=$(dirname "$lib")/gpu
[ $# -gt 0 ] || set -- static_cudart dlopen_cublas linked_driver two_threads two_contexts
command -v compute-sanitizer >/dev/null || {
	echo "skipped: no compute-sanitizer here"
	exit 0
}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LD_LIBRARY_PATH=$(cd "$here" && python3 -c 'import harness; print(harness.library_path())')
export LD_LIBRARY_PATH
failed=0
for name; do
	log=$work/$name
	# LD_PRELOAD is set for the sanitizer itself: it adds its own library to it.
	LD_PRELOAD=$lib FASHIM=replace FASHIM_ONLY=$name FASHIM_BUDGET=0 FASHIM_OUT=$log.jsonl FASHIM_LOG=warn \
		timeout 170 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 \
		"$programs/$name" "$log.bin" 8 >"$log.txt" 2>&1
	status=$?
	replaced=$(python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
import harness
print(harness.Log(sys.argv[2]).total("replaced"))' "$here" "$log.jsonl")
	errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\).*/\1/p' "$log.txt" | tail -n 1)
	if [ $status -eq 0 ] && [ "${errors:-none}" = 0 ] && [ "$replaced" -gt 0 ]; then
		echo "$name: ok, $replaced chains replaced"
	else
		failed=1
		echo "$name: FAILED, status $status, errors ${errors:-unknown}, $replaced replaced"
		grep -m 12 '^=========' "$log.txt" || tail -n 8 "$log.txt"
	fi
	rm -f "$log.bin" "$log.bin.1"
done
tar -czf "$out/sanitize.tar.gz" -C "$work" .
exit $failed
