#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh DIR NEEDS: brings by name what building needs and this machine lacks, says first what that is, and is
# silent when nothing is missing. NEEDS is `build`; `build-test` brings also what only tests need, `build-portable`
# the assembler of CUDA 12 and a linker that has the names of older C libraries (zig). All is looked at before
# anything is fetched: what cannot be installed here is named in one line, with the command that would, and the
# status is 1. Compilers and C libraries come from the distribution; without a CUDA toolkit (nvcc and headers)
# NVIDIA's packages on PyPI are unpacked into DIR/cuda. CUDA in the environment names the toolkit that the
# build will use. DIR/setup-NEEDS.mk, which is empty, says that all was there.

set -u
dir=${1:?usage: setup.sh DIR build[-test][-portable]}
needs=$2
cuda=${CUDA:-$dir/cuda}

needed()
{
	case -$needs- in *-$1-*) ;; *) return 1 ;; esac
}

# command or header:Debian package
tools='cc:gcc c++:g++ awk:mawk gzip:gzip'
headers='stdio.h:libc6-dev jansson.h:libjansson-dev libsmartcols/libsmartcols.h:libsmartcols-dev
	sqlite3.h:libsqlite3-dev'
if needed test; then
	tools="$tools python3:python3"
	headers="$headers cmocka.h:libcmocka-dev"
fi
# PyPI packages of CUDA 13.0; together they are bin/nvcc, nvvm/, include/ (cuda.h, cublas_v2.h) and lib/.
wheels='nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-runtime==13.0.*
	nvidia-cuda-cccl==13.0.* nvidia-nvtx==13.0.* nvidia-cublas==13.1.0.*'

say()
{
	printf 'setup: %s\n' "$*" >&2
}

# Nothing was changed so far.
stop()
{
	say "$*"
	exit 1
}

have_header()
{
	[ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] ||
		echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1
}

# Assembles for drivers older than the toolkit (kernels/portable.sh); the first that knows sm_100 and sm_120.
assembler='nvidia-cuda-nvcc-cu12==12.8.*'
linker='ziglang==0.13.0'

have_assembler()
{
	! needed portable || { [ -x "$dir/ptxas" ] && [ -x "$dir/ziglang/zig" ]; }
}

have_toolkit()
{
	[ -x "$cuda/bin/nvcc" ] && [ -e "$cuda/include/cublas_v2.h" ]
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

# Packages of the distribution that are missing.
find_missing()
{
	missing=
	for row in $tools; do
		name=${row%%:*}
		[ "$name" = cc ] && [ -n "${CC:-}" ] && name=$CC
		command -v "$name" >/dev/null 2>&1 || missing="$missing ${row#*:}"
	done
	for row in $headers; do
		have_header "${row%%:*}" || missing="$missing ${row#*:}"
	done
	if ! have_toolkit || ! have_assembler; then
		python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
		[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"
	fi
}

may_install()
{
	command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

install_packages()
{
	say "installing$missing with apt-get"
	quick='-y -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20'
	# shellcheck disable=SC2086 # lists of words
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install $quick --no-install-recommends $missing >"$log" 2>&1 ||
		{ as_root env DEBIAN_FRONTEND=noninteractive apt-get update $quick >"$log" 2>&1 &&
		  as_root env DEBIAN_FRONTEND=noninteractive apt-get install $quick --no-install-recommends $missing >"$log" 2>&1; } ||
		stop "could not install$missing (see $log)"
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

fetch_toolkit()
{
	say "fetching the CUDA 13.0 compiler and headers from PyPI into $cuda (500 MB)"
	rm -rf "$dir/wheels" "$dir/unpacked"
	# shellcheck disable=SC2086 # a list of words
	python3 -m pip download -q --no-deps --only-binary=:all: --retries 1 --timeout 60 \
		--disable-pip-version-check -d "$dir/wheels" $wheels >"$log" 2>&1 &&
		unpack_toolkit >>"$log" 2>&1
	fetched=$?
	rm -rf "$dir/wheels" "$dir/unpacked"
	[ $fetched = 0 ] || stop "could not fetch the CUDA toolkit (see $log)"
	say "installed nvcc $("$cuda/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
}

fetch_assembler()
{
	say "fetching the assembler of CUDA 12.8 and zig from PyPI into $dir (130 MB)"
	rm -rf "$dir/wheels" "$dir/unpacked"
	python3 -m pip download -q --no-deps --only-binary=:all: --retries 1 --timeout 60 \
		--disable-pip-version-check -d "$dir/wheels" "$assembler" "$linker" >"$log" 2>&1 &&
		python3 -m zipfile -e "$dir"/wheels/nvidia*.whl "$dir/unpacked" >>"$log" 2>&1 &&
		python3 -m zipfile -e "$dir"/wheels/zig*.whl "$dir/unpacked" >>"$log" 2>&1 &&
		chmod +x "$dir/unpacked/nvidia/cuda_nvcc/bin/ptxas" "$dir/unpacked/ziglang/zig" &&
		mv "$dir/unpacked/nvidia/cuda_nvcc/bin/ptxas" "$dir/" && rm -rf "$dir/ziglang" &&
		mv "$dir/unpacked/ziglang" "$dir/"
	fetched=$?
	rm -rf "$dir/wheels" "$dir/unpacked"
	[ $fetched = 0 ] || stop "could not fetch it (see $log)"
}

# ---- first what is missing, then whether it can be had, then the fetching
have_toolkit || [ "$cuda" = "$dir/cuda" ] ||
	stop "no CUDA toolkit with cuBLAS in CUDA=$cuda; leave CUDA unset to have one fetched"
find_missing
if [ -n "$missing" ] && ! may_install; then
	command -v apt-get >/dev/null 2>&1 || stop "missing, and there is no apt-get to install it:$missing"
	stop "missing; run: sudo apt-get install$missing"
fi
mkdir -p "$dir" || exit 1
log=$dir/setup.log
[ -z "$missing" ] || install_packages
have_toolkit || fetch_toolkit
have_assembler || fetch_assembler
: >"$dir/setup-$needs.mk"
