#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# toolkits.sh FOLDER [VERSION...]: compiles the shim against the headers of older CUDA toolkits (NVIDIA's packages
# on PyPI; what FOLDER/VERSION lacks is fetched, 400 MB each, and all but headers and cuBLAS's names are dropped),
# and looks up cuBLAS's functions that the shim watches in the libraries themselves. Prints a table in Markdown;
# status 1 where a file does not compile, 2 where all do but a toolkit could not be fetched.
set -u
folder=${1:?usage: toolkits.sh FOLDER [VERSION...]}
shift
[ $# -gt 0 ] || set -- 11.8 12.1 12.4 12.6 12.8 13.0
cc=${CC:-cc}
failed=0
last=

# fetch VERSION PACKAGE...: unpacks their wheels into FOLDER/VERSION.
fetch()
{
	wanted=$1
	shift
	for package; do
		python3 -m pip download -q --no-deps --only-binary=:all: --disable-pip-version-check \
			-d "$folder/wheels" "$package==$wanted.*" || return 1
		python3 -m zipfile -e "$folder"/wheels/*.whl "$folder/$wanted" || return 1
		rm -rf "$folder/wheels"
	done
}

# Names that a library defines, in FOLDER/VERSION/NAME.names.
names()
{
	for library in "$folder/$1"/nvidia/*/lib/libcublas.so.* "$folder/$1"/nvidia/*/lib/libcublasLt.so.*; do
		[ -e "$library" ] || continue
		nm -D --defined-only "$library" | sed 's/.* //; s/@.*//' >"$folder/$1/${library##*/}.names"
	done
	rm -rf "$folder/$1"/nvidia/*/lib "$folder/$1"/nvidia/*/bin "$folder/$1"/nvidia/*/nvvm
}

# prepare VERSION: its packages have other names from 13 on.
prepare()
{
	case $1 in # cuda_fp16.h wants <nv/target>, which comes apart
	12.[4-9]) [ -d "$folder/$1/nvidia/cuda_cccl" ] || fetch "$1" nvidia-cuda-cccl-cu12 || return 1 ;;
	esac
	[ ! -e "$folder/$1/.complete" ] || return 0
	case $1 in
	13.*) fetch "$1" nvidia-cuda-runtime nvidia-cuda-crt && fetch_cublas "$1" nvidia-cublas ;;
	*) fetch "$1" "nvidia-cuda-runtime-cu${1%%.*}" "nvidia-cuda-nvcc-cu${1%%.*}" && fetch_cublas "$1" "nvidia-cublas-cu${1%%.*}" ;;
	esac || return 1
	names "$1"
	touch "$folder/$1/.complete"
}

# cuBLAS's minor version is not always the toolkit's.
fetch_cublas()
{
	case $1 in
	11.8)
		ln -sfn 11.8 "$folder/11.11"
		fetch 11.11 "$2"
		;;
	*) fetch "$1" "$2" ;;
	esac
}

# lacks NAMES: which functions of cublas_hooks.def a library lacks.
lacks()
{
	cat "$@" | sort -u | comm -13 - "$folder/hooks" >"$folder/lacks"
	grep -v '_64$' "$folder/lacks" | tr '\n' ' '
	grep -q '_64$' "$folder/lacks" && echo "and $(grep -c '_64$' "$folder/lacks") whose names end in _64"
}

# Of cuBLAS's products, those that the shim does not watch by name.
unwatched()
{
	cat "$@" | grep -E '^cublas(.*[Gg]emm.*|LtMatmul)$' | grep -vE 'Legacy|Algo' | sort -u | comm -23 - "$folder/hooks" | tr '\n' ' '
}

mkdir -p "$folder"
sed -n 's/^[A-Z_]*(\(cublas[A-Za-z0-9_]*\).*/\1/p' shim/real/cublas_hooks.def | sort -u >"$folder/hooks"
echo '| toolkit | files of the shim that compile with its headers | of the functions watched, its cuBLAS has | and lacks |'
echo '|---|---|---|---|'
for version; do
	prepare "$version" || {
		echo "$version could not be fetched" >&2
		[ $failed = 1 ] || failed=2
		continue
	}
	include=
	for each in "$folder/$version"/nvidia/*/include; do
		include="$include -isystem $each"
	done
	good=0 all=0
	case $version in
	11.* | 12.[0-3]) ;; # run with, not built with
	*)
		for file in shim/*/*.c; do
			all=$((all + 1))
			# shellcheck disable=SC2086 # a list of words
			if "$cc" -fsyntax-only -I. $include -DFASHIM_OWN_TYPES -DFASHIM_VERSION='"0"' -D_GNU_SOURCE -std=gnu11 -w "$file"; then
				good=$((good + 1))
			else
				failed=1
			fi
		done
		;;
	esac
	missing=$(lacks "$folder/$version"/*.names)
	hooks=$(wc -l <"$folder/hooks")
	echo "| $version | $([ $all = 0 ] && echo 'not built with' || echo "$good of $all") | $((hooks - $(wc -l <"$folder/lacks"))) of $hooks | ${missing:-–} |"
	last=$version
done
echo
[ -z "$last" ] ||
	echo "Products that are not watched by name, so that their kernels are looked at one by one: $(unwatched "$folder/$last"/*.names)"
exit $failed
