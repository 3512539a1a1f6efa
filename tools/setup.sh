#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh DIR: installs by name what building needs and this machine lacks, one line for each thing,
# and is silent and quick when nothing is missing. C libraries come from the distribution; without a
# CUDA toolkit (nvcc and headers) NVIDIA's packages on PyPI are unpacked into DIR/cuda. What cannot be
# installed is said in one line and the build goes on: it may need none of it. CUDA in the environment
# names the toolkit that the build will use.

set -u
dir=${1:?usage: setup.sh DIR}
cuda=${CUDA:-$dir/cuda}
stamp=$dir/.complete
version=2

# The common case, without starting a single process.
if [ -r "$stamp" ] && read -r stamped <"$stamp" && [ "$stamped" = "$version" ]; then
	exit 0
fi

# header:Debian package
libraries='cmocka.h:libcmocka-dev jansson.h:libjansson-dev libsmartcols/libsmartcols.h:libsmartcols-dev
	sqlite3.h:libsqlite3-dev'
# PyPI packages of CUDA 13.0; together they are bin/nvcc, nvvm/, include/ (cuda.h, cublas_v2.h) and lib/.
wheels='nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-runtime==13.0.*
	nvidia-cuda-cccl==13.0.* nvidia-nvtx==13.0.* nvidia-cublas==13.1.0.*'

complete=1

say()
{
	printf 'setup: %s\n' "$*" >&2
}

have_header()
{
	[ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] ||
		echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1
}

# Runs a command with the rights to install: as root, or by a sudo that asks for no password.
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

install_libraries()
{
	missing=
	for row in $libraries; do
		have_header "${row%%:*}" || missing="$missing ${row#*:}"
	done
	[ -n "$missing" ] || return 0
	if ! command -v apt-get >/dev/null 2>&1; then
		say "missing, and there is no apt-get to install it:$missing"
		complete=0
	elif [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
		say "missing; run: sudo apt-get install$missing"
		complete=0
	else
		quick='-y -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20'
		# shellcheck disable=SC2086 # lists of words
		if as_root env DEBIAN_FRONTEND=noninteractive apt-get install $quick --no-install-recommends $missing >"$log" 2>&1 ||
		   { as_root env DEBIAN_FRONTEND=noninteractive apt-get update $quick >"$log" 2>&1 &&
		     as_root env DEBIAN_FRONTEND=noninteractive apt-get install $quick --no-install-recommends $missing >"$log" 2>&1; }; then
			for package in $missing; do
				say "installed $package"
			done
		else
			say "could not install$missing (see $log)"
			complete=0
		fi
	fi
}

# Wheels keep everything under nvidia/cu13; zip files unpacked by Python lose the mode bits.
unpack_toolkit()
{
	for wheel in "$dir"/wheels/*.whl; do
		python3 -m zipfile -e "$wheel" "$dir/unpacked" || return 1
	done
	top=$dir/unpacked/nvidia/cu13
	chmod +x "$top"/bin/* "$top"/nvvm/bin/* || return 1
	ln -s lib "$top/lib64" || return 1
	for library in "$top"/lib/lib*.so.*; do
		ln -sf "${library##*/}" "${library%%.so.*}.so" || return 1
	done
	make_stub "$top" || return 1
	rm -rf "$cuda" && mv "$top" "$cuda"
}

# libcuda.so to link against: the driver's names of all versions and its soname, nothing in it. (It comes
# with drivers and with NVIDIA's full toolkit, not on PyPI.)
make_stub()
{
	mkdir -p "$1/lib/stubs" || return 1
	for flag in '' CUDA_API_PER_THREAD_DEFAULT_STREAM __CUDA_API_VERSION_INTERNAL; do
		echo '#include <cuda.h>' | ${CC:-cc} -E -I"$1/include" ${flag:+-D$flag} - | tr '\n' ' ' |
			grep -oE 'CUresult +cu[A-Z][A-Za-z0-9_]*\('
	done | sed 's/.* //; s/($//; /^cuGetProcAddress_v2_pt/d' | sort -u |
		sed 's/.*/void &(void) {}/; $a void cuProfilerInitialize(void) {}' |
		sed '$a void cuProfilerStart(void) {} void cuProfilerStop(void) {}' |
		${CC:-cc} -shared -fPIC -Wl,-soname,libcuda.so.1 -x c -o "$1/lib/stubs/libcuda.so" -
}

install_toolkit()
{
	[ -x "$cuda/bin/nvcc" ] && [ -e "$cuda/include/cublas_v2.h" ] && return 0
	if [ "$cuda" != "$dir/cuda" ]; then
		say "no CUDA toolkit with cuBLAS in CUDA=$cuda; leave CUDA unset to have one fetched"
		complete=0
		return 0
	fi
	if ! python3 -m pip --version >/dev/null 2>&1; then
		say "no CUDA toolkit and no pip to fetch one; install CUDA 13 or: apt-get install python3-pip"
		complete=0
		return 0
	fi
	say "fetching the CUDA 13.0 compiler and headers from PyPI into $cuda (500 MB)"
	rm -rf "$dir/wheels" "$dir/unpacked"
	# shellcheck disable=SC2086 # a list of words
	if python3 -m pip download -q --no-deps --only-binary=:all: --retries 1 --timeout 60 \
		--disable-pip-version-check -d "$dir/wheels" $wheels >"$log" 2>&1 &&
	   unpack_toolkit >>"$log" 2>&1; then
		say "installed nvcc $("$cuda/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
	else
		say "could not fetch the CUDA toolkit (see $log)"
		complete=0
	fi
	rm -rf "$dir/wheels" "$dir/unpacked"
}

mkdir -p "$dir" || exit 0
log=$dir/setup.log
install_libraries
install_toolkit
[ $complete = 1 ] && echo "$version" >"$stamp"
exit 0
