#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# portable.sh NVCC PTXAS IMAGE PTX OUT: one part of an image that older drivers load, too. nvcc 13 writes PTX 9.0
# and cubins of an ELF form that drivers below 580 refuse. Its PTX says, here, the oldest version of the language
# that has all that the kernels use, and PTXAS, of CUDA 12, assembles it: its cubins load from driver 525 on. A
# hint for loads that older assemblers do not know goes. Packed without Zstandard, which drivers unpack from 550 on.
set -eu
nvcc=$1 ptxas=$2 image=$3 made=$4 out=$5
arch=${image#*_}
case $arch in
75 | 80 | 86 | 89) isa=7.8 ;; # CUDA 11.8
90a) isa=8.1 ;;               # CUDA 12.1: st.async
100 | 120) isa=8.7 ;;         # CUDA 12.8: the first that knows them
*)
	echo "portable.sh: no version of PTX is known for $image" >&2
	exit 1
	;;
esac
ptx=${out%.fatbin}.old.ptx
sed "s/^\.version .*/.version $isa/; /\.pragma \"used_bytes_mask/d" "$made" >"$ptx"
case $image in
compute_*)
	set -- "--image3=kind=ptx,sm=$arch,file=$ptx"
	;;
*)
	"$ptxas" "-arch=sm_$arch" -v "$ptx" -o "${out%.fatbin}.cubin"
	set -- "--image3=kind=elf,sm=$arch,file=${out%.fatbin}.cubin"
	;;
esac
"$(dirname "$nvcc")/fatbinary" -64 --compress-mode=speed --compress-all "--create=$out" "$@"
