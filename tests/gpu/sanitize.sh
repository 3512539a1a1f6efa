#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compute-sanitizer over compiled programs with the shim in them.
#
#     sanitize.sh LIBFASHIM OUTDIR [PROGRAM|hazards:CASE…]
#
# SANITIZE_TOOLS: some of memcheck (as it comes), racecheck, synccheck, initcheck; SANITIZE_TIMEOUT: seconds for one
# run (170); all run side by side. API errors are not reported: asking for a kernel's parameters until the driver says
# "no more" is how that call is meant to be used. A run passes when its program ends well, the log shows that chains
# were replaced (a check of a run in which the shim did nothing would prove nothing), and nothing is reported of any
# kernel that is not reported of the program alone: cuBLAS has reports of its own.
set -u
lib=$(realpath "$1")
out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$lib")
tools=${SANITIZE_TOOLS:-memcheck}
limit=${SANITIZE_TIMEOUT:-170}
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

# under TOOL PROGRAM LOG PRELOAD: LOG.txt has what was reported. The preload is set for the sanitizer itself, which
# adds its own library to it.
under()
{
	case $2 in
	*:*) set -- "$1" "$build/apps/gpu/${2%%:*}" "$3" "$4" "${2#*:}" ;;
	*) set -- "$1" "$build/gpu/$2" "$3" "$4" "$3.bin" 8 ;;
	esac
	tool=$1 program=$2 log=$3 preload=$4
	shift 4
	LD_PRELOAD=$preload FASHIM=replace FASHIM_ONLY=${program##*/} FASHIM_MIN_SPEEDUP=0 FASHIM_BUDGET=0 \
		FASHIM_OUT=$log.jsonl FASHIM_LOG=warn timeout "$limit" \
		compute-sanitizer --tool "$tool" --report-api-errors no --print-limit 1000 --error-exitcode 9 \
		"$program" "$@" >"$log.txt" 2>&1
	status=$?
	rm -f "$log.bin" "$log.bin.1"
	return $status
}

# Reports in LOG.txt, or nothing where it did not come to its end.
reports()
{
	sed -n 's/^========= .*SUMMARY: \([0-9]*\) .*/\1/p' "$1.txt" | tail -n 1
}

# The kernels that LOG.txt has reports of.
kernels()
{
	sed -n 's/^=========  *\(.* \)\{0,1\}\(at\|access at\) \(.*\)+0x[0-9a-f]*.*/\3/p' "$1.txt" | sort -u
}

# check TOOL PROGRAM LOG: a line, and what was found below it.
check()
{
	under "$1" "$2" "$3" "$lib"
	status=$?
	replaced=$(cd "$here" && python3 -c '
import sys, harness
print(harness.Log(sys.argv[1]).total("replaced"))' "$3.jsonl")
	found=$(reports "$3")
	new=
	if [ "${found:-0}" -gt 0 ] && [ $status -eq 9 ]; then
		under "$1" "$2" "$3.alone" ""
		kernels "$3" >"$3.kernels"
		kernels "$3.alone" >"$3.alone.kernels"
		new=$(comm -23 "$3.kernels" "$3.alone.kernels")
		# Reports of the program's own kernels alone, as without the shim.
		[ -n "$new" ] || [ ! -s "$3.kernels" ] || status=0
	fi
	if [ $status -eq 0 ] && [ -n "$found" ] && [ -z "$new" ] && [ "$replaced" -gt 0 ]; then
		[ "$found" = 0 ] || replaced="$replaced chains replaced, $found reports, of kernels that are reported without the shim, too"
		[ "$found" != 0 ] || replaced="$replaced chains replaced"
		echo "$1 $2: ok, $replaced"
	else
		echo "$1 $2: FAILED, status $status, ${found:-unknown} reports, $replaced replaced"
		[ -z "$new" ] || printf '%s\n' "$new" | sed 's/^/  new: /'
		grep -m 24 '^=========' "$3.txt" || tail -n 8 "$3.txt"
	fi
}

for tool in $tools; do
	for name; do
		check "$tool" "$name" "$work/$tool.$name" >"$work/$tool.$name.said" 2>&1 &
	done
done
wait
cat "$work"/*.said
tar -czf "$out/sanitize.tar.gz" -C "$work" .
! grep -q ': FAILED' "$work"/*.said
