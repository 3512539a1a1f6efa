#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Records traces of all test programs: record.sh LIBFASHIM OUTDIR [GLOB,…]
set -eu
here=$(dirname "$0")
exec python3 "$here/record.py" --lib "$1" --out "$2" --only "${3:-*}"
