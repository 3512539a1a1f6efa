#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything that is asked of a real GPU, in one call:
#
#     [PARTS=zoo,programs] [ZOO='FASHIM=replace …'] all.sh BUILD OUT [run.py's options]
#
# PARTS: those alone, and ZOO: the zoo in these settings alone, where one call has too little time for all.
# BUILD: libfashim.so, gpu/ and apps/gpu/ as `make gpu-programs apps-gpu` leaves them. The table of programs
# (run.py), the hazard zoo in four settings, torch.compile's graphs, memcheck, the kernels by themselves,
# programs on two GPUs where there are two, the cost of watching. Ends with one line for each part; exit
# status 1 when a part failed.
set -u
[ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ] || {
	echo "skipped: no CUDA device here; the GPU tests did not run"
	exit 0
}
for file in libfashim.so gpu/kernel_check apps/gpu/hazards; do
	[ -e "$1/$file" ] || {
		echo "all.sh: no $1/$file: make gpu-programs apps-gpu first" >&2
		exit 2
	}
done
build=$(realpath "$1")
out=$2
shift 2
here=$(dirname "$0")
mkdir -p "$out"
failed=0
summary=""

# Where there are two GPUs the programs, whose sites depend on times, have one to themselves meanwhile.
first=
second=
if [ -z "${CUDA_VISIBLE_DEVICES:-}" ] && [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -ge 2 ]; then
	first=CUDA_VISIBLE_DEVICES=0
	second=CUDA_VISIBLE_DEVICES=1
fi

took() { # WORD NAME SECONDS
	summary="$summary$(printf '  %-5s %s, %s s' "$1" "$2" "$3")
"
}

wanted() { # NAME
	case ,${PARTS:-$1}, in *,"$1",*) return 0 ;; esac
	return 1
}

part() { # NAME COMMAND…
	name=$1
	shift
	wanted "$name" || return 0
	echo "== $name"
	began=$(date +%s)
	word=ok
	"$@" || word=FAIL failed=1
	took $word "$name" $(($(date +%s) - began))
}

# Parts that time nothing run side by side; what each said follows when all are done.
beside() { # NAME COMMAND…
	wanted "$1" || return 0
	number=$((number + 1))
	name=$1
	shift
	{
		began=$(date +%s)
		word=ok
		"$@" >"$out/beside.$number" 2>&1 || word=FAIL
		echo "$word $(($(date +%s) - began))" >"$out/beside.$number.status"
	} &
	names="$names$name
"
}

rm -f "$out"/beside.*
number=0
names=""
: "${ZOO:=FASHIM=replace FASHIM_POISON=1 FASHIM=compare APP_KERNELS=own}"
# shellcheck disable=SC2086
beside zoo env $second python3 "$here/zoo.py" --lib "$build/libfashim.so" --apps "$build/apps/gpu" \
	--jobs $((($(nproc) + 16) / 2)) --out "$out" $ZOO
beside graphs env $second python3 "$here/graphs_replayed.py" --lib "$build/libfashim.so" --out "$out/graphs" \
	--rounds 1 --deadline 240 --replaced compiled compiled_masked alone
beside memcheck env $second sh "$here/sanitize.sh" "$build/libfashim.so" "$out/sanitize"
beside "fp32 kernels" env $second "$build/gpu/f32_check" -q "$build/gpu/f32_check.fatbin"
beside kernels env $second "$build/gpu/kernel_check" -q
[ -n "$first" ] || wait
beside programs env $first python3 "$here/run.py" --lib "$build/libfashim.so" --out "$out" "$@"
wait
number=0
while read -r name; do
	[ -n "$name" ] || continue
	number=$((number + 1))
	read -r word seconds <"$out/beside.$number.status"
	echo "== $name, $seconds s"
	cat "$out/beside.$number"
	[ "$word" = ok ] || failed=1
	took "$word" "$name" "$seconds"
done <<NAMES
$names
NAMES
part "many GPUs" python3 "$here/many.py" --lib "$build/libfashim.so" --out "$out"
part "cost of watching" python3 "$here/audit_cost.py" --lib "$build/libfashim.so" --out "$out/audit"
printf '%s' "$summary"
exit $failed
