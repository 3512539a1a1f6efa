#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# sanitizers.sh BUILD: programs under a sanitizer start with the shim as they start with a preload that
# does nothing, and keep being replaced. Each compiler and sanitizer that is here, its runtime linked
# statically and shared, preloaded on either side or not at all. Ends with "N passed, N failed".

set -u
build=$(cd "${1:?usage: sanitizers.sh BUILD}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

cd "$work" || exit 1
printf '#include <stdio.h>\nint main(void)\n{\n\treturn puts("hello") < 0;\n}\n' >hello.c
printf 'int nothing;\n' >inert.c
gcc -shared -fPIC -o inert.so inert.c || exit 1

# judge NAME EXPECTED FOUND
judge()
{
	if [ "$2" = "$3" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'not the same: %s\n  without the shim: %s\n  with it:          %s\n' "$1" "$2" "$3"
	fi
}

# started FOLDER PRELOAD MODE: what hello says and how it ends; numbers of processes left out.
started()
{
	local said status

	said=$(LD_LIBRARY_PATH=$1 LD_PRELOAD=$2 FASHIM=$3 timeout 900 ./hello 2>&1)
	status=$?
	printf '%s (%s)' "$(sed -E 's/==[0-9]+==//g; s/\(tid=[0-9]+\)//; s/0x[0-9a-f]+//g' <<<"$said" |
		tr '\n' '|')" "$status"
}

# runtime_of PROGRAM COMPILER: path of the shared runtime that it needs, or nothing.
runtime_of()
{
	local name

	name=$(readelf -d "$1" | sed -nE 's/.*NEEDED.*\[(lib[^]]*san[^]]*)\]/\1/p' | head -1)
	[ -z "$name" ] || ldconfig -p | sed -nE "s/^\\s*$name .*=> //p" | grep . || "$2" -print-file-name="$name"
}

hello()
{
	local compiler=$1 folder=$4 name="$1 $2 ${3:-as it comes}" runtime preload mode
	local -a flags=("-fsanitize=$2")

	[ -z "$3" ] || flags+=("$3")
	"$compiler" -g "${flags[@]}" -o hello hello.c 2>/dev/null || return
	runtime=$(LD_LIBRARY_PATH=$folder runtime_of hello "$compiler")
	for mode in replace off; do
		for preload in @ ${runtime:+"$runtime:@" "@:$runtime"}; do
			judge "$name, LD_PRELOAD=$preload FASHIM=$mode" \
				"$(started "$folder" "${preload/@/$work/inert.so}" "$mode")" \
				"$(started "$folder" "${preload/@/$build/libfashim.so}" "$mode")"
		done
	done
}

for sanitizer in address thread undefined leak; do
	case $sanitizer in
	address) library=libasan ;;
	thread) library=libtsan ;;
	undefined) library=libubsan ;;
	leak) library=liblsan ;;
	esac
	hello gcc "$sanitizer" "" ""
	hello gcc "$sanitizer" "-static-$library" ""
	if command -v clang >/dev/null; then
		hello clang "$sanitizer" "" ""
		hello clang "$sanitizer" -shared-libsan "$(dirname "$(clang -print-file-name=libclang_rt.asan-x86_64.so)")"
	fi
done

# replaced PROGRAM RUNTIME: what it computes and how many chains were replaced, under a sanitizer's runtime.
replaced()
{
	rm -rf logs && mkdir logs
	LD_LIBRARY_PATH=$build/simgpu SIMGPU_ARCH=80 FASHIM_MIN_SPEEDUP=0 FASHIM_BUDGET=0 FASHIM_OUT=logs/l.jsonl \
		ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$2$build/sim/libfashim.so "$1" 2>&1
	tail -n 1 logs/l.jsonl | grep -o '"replaced":[1-9][0-9]*'
}

demo=$build/apps/sim/demo
blas=$(readelf -d "$demo" | sed -nE 's/.*NEEDED.*\[(libcublas[^]]*)\]/\1/p')
plain=$(replaced "$demo" "")
for library in libasan libtsan; do
	runtime=$(gcc -print-file-name=$library.so)
	[ "${runtime#/}" = "$runtime" ] || judge "demo under $library" "$plain" "$(replaced "$demo" "$runtime:")"
done
# The runtime linked into the program comes before the shim.
cp "$demo.kernels" .
for flag in address,-static-libasan thread,-static-libtsan; do
	gcc "-fsanitize=${flag%,*}" "${flag#*,}" -o demo "$build"/tests/apps/{demo,app,app_aten}.o -L"$build/simgpu" \
		"-l:$blas" -l:libcuda.so.1 -Wl,-rpath-link,"$build/simgpu" -ldl -lpthread -lm &&
		judge "demo with ${flag%,*}" "$plain" "$(replaced ./demo "")"
done
case $plain in
*'"replaced"'*) ;;
*) judge "demo" "replaced" "$plain" ;;
esac

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
