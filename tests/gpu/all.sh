#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything that is asked of a real GPU, in one call:
#
#     all.sh BUILD OUT [run.py's options]
#
# BUILD: libfashim.so, gpu/ and apps/gpu/ as `make gpu-programs apps-gpu` leaves them. The table of programs
# (run.py), the hazard zoo in four settings, memcheck, the kernels by themselves, programs on two GPUs
# where there are two, the cost of watching. Ends with one line for each part; exit status 1 when a part failed.
set -u
[ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ] || {
	echo "skipped: no CUDA device here; the GPU tests did not run"
	exit 0
}
build=$(realpath "$1")
out=$2
shift 2
here=$(dirname "$0")
mkdir -p "$out"
failed=0
summary=""

part() { # NAME COMMAND…
	name=$1
	shift
	echo "== $name"
	if "$@"; then
		summary="$summary  ok    $name
"
	else
		summary="$summary  FAIL  $name
"
		failed=1
	fi
}

# Parts that time nothing run side by side; what each said follows when all are done.
beside() { # NAME COMMAND…
	number=$((number + 1))
	name=$1
	shift
	{
		"$@" >"$out/beside.$number" 2>&1
		echo $? >"$out/beside.$number.status"
	} &
	names="$names$name
"
}

number=0
names=""
for setting in FASHIM=replace FASHIM_POISON=1 FASHIM=compare APP_KERNELS=own; do
	beside "zoo $setting" python3 "$here/zoo.py" --lib "$build/libfashim.so" --apps "$build/apps/gpu" \
		--jobs 4 --out "$out/zoo.$setting.txt" "$setting"
done
beside memcheck sh "$here/sanitize.sh" "$build/libfashim.so" "$out/sanitize"
beside kernels "$build/gpu/kernel_check" -q
wait
number=0
while read -r name; do
	[ -n "$name" ] || continue
	number=$((number + 1))
	# shellcheck disable=SC2016 # the inner shell expands it
	part "$name" sh -c 'cat "$1"; exit "$(cat "$1.status")"' sh "$out/beside.$number"
done <<NAMES
$names
NAMES
part programs python3 "$here/run.py" --lib "$build/libfashim.so" --out "$out" "$@"
part "fp32 kernels" "$build/gpu/f32_check" "$build/gpu/f32_check.fatbin"
part "many GPUs" python3 "$here/many.py" --lib "$build/libfashim.so" --out "$out"
part "cost of watching" python3 "$here/audit_cost.py" --lib "$build/libfashim.so" --out "$out/audit"
printf '%s' "$summary"
exit $failed
