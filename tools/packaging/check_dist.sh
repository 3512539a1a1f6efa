#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# check_dist.sh ROOT GLIBC FOLDER: may what lies below ROOT be given away? Its programs and libraries ask for no C
# library newer than GLIBC and for no other library that a bare machine with a driver lacks, and nothing names the FOLDER that it
# was built in.
set -eu
root=$1 glibc=$2 folder=$3
may_need='libc.so.6 libdl.so.2 libpthread.so.0 libm.so.6 libsmartcols.so.1 libcuda.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1'
bad=0

for file in "$root"/bin/* "$root"/lib/fashim/*; do
	newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -Vu | tail -1)
	if [ -n "$newest" ] && [ "$(printf '%s\n%s\n' "$newest" "$glibc" | sort -V | tail -1)" != "$glibc" ]; then
		echo "${file#"$root"/} needs glibc $newest"
		bad=1
	fi
	for needed in $(objdump -p "$file" | sed -n 's/^ *NEEDED *//p'); do
		case " $may_need " in
		*" $needed "*) ;;
		*)
			echo "${file#"$root"/} needs $needed"
			bad=1
			;;
		esac
	done
done
if objdump -p "$root/lib/fashim/libfashim.so" | grep -q 'NEEDED.*\(libm\|smartcols\)'; then
	echo 'the shim needs more than the C library'
	bad=1
fi
if grep -rlF "$folder" "$root"; then
	echo 'names the folder that it was built in'
	bad=1
fi
exit $bad
