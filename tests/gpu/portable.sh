#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# portable.sh NATIVE PORTABLE TEXT OUT: other builds than the usual one on a real GPU. PORTABLE, made with PORTABLE=1, holds
# the hazard zoo and the kernels by themselves, which take as long as those of NATIVE (2 %). TEXT has no image for this
# GPU but PTX (ARCHS=75 PTX=80): the driver compiles none of it in a call of the program's, and what `fashim doctor
# --prepare` made of it is loaded. All three: build folders with libfashim.so, NATIVE and PORTABLE with gpu/kernel_check,
# NATIVE with apps/gpu, TEXT with fashim and libfashim_kernels.so. One line for each part; status 1 where one failed.
set -u
native=$(realpath "$1")
portable=$(realpath "$2")
text=$(realpath "$3")
out=$4
here=$(dirname "$0")
mkdir -p "$out"
out=$(realpath "$out")
failed=0
summary=""

part() { # NAME COMMAND…
	name=$1
	shift
	echo "== $name"
	if "$@"; then word='ok   '; else
		word=FAIL
		failed=1
	fi
	summary="$summary  $word $name
"
}

# shellcheck disable=SC2317 # these are called by part
# demo WORDS: runs under the shim of TEXT; the log then has the words.
demo() {
	rm -f "$out/demo.jsonl"
	(cd "$native/apps/gpu" && FASHIM_BUDGET=0 FASHIM_MIN_SPEEDUP=0 FASHIM_OUT="$out/demo.jsonl" LD_PRELOAD="$text/libfashim.so" ./demo)
	tail -n 1 "$out/demo.jsonl" | grep -o '"images":[0-9.]*\|"replaced":[0-9]*'
	grep -q "$1" "$out/demo.jsonl"
}

# shellcheck disable=SC2317
compiled() {
	begun=$(date +%s)
	"$text/fashim" doctor --prepare || return
	echo "in $(($(date +%s) - begun)) s"
	ls -l "$XDG_CACHE_HOME/fashim"
}

export XDG_CACHE_HOME="$out/cache"
part 'text alone: left alone' demo '"not_prepared"'
part 'text alone: compiled' compiled
part 'text alone: replaced' demo '"replaced":[1-9]'
part 'portable: zoo' python3 "$here/zoo.py" --lib "$portable/libfashim.so" --apps "$native/apps/gpu" --jobs 8 \
	--out "$out" FASHIM=replace
part 'portable: kernels' "$portable/gpu/kernel_check" -q
part 'portable: times' python3 "$here/portable.py" "$native/gpu/kernel_check" "$portable/gpu/kernel_check"
printf '%s' "$summary"
exit $failed
