#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_ptxas.sh FILE...: fails if a kernel in these `ptxas -v` reports spills registers to memory,
# or if a report names no kernel at all. The reference may: it calls double-precision subroutines,
# and speed is not its aim. VERBOSE=1 prints a line per kernel.
[ $# -gt 0 ] || { echo "usage: check_ptxas.sh FILE..." >&2; exit 2; }
bad=0
for file; do
	awk -v file="$file" -v verbose="$VERBOSE" '
		/Function properties for/ { name = $NF }
		/bytes spill stores/ {
			kernels++
			spill = $5 + $9
			if (spill && name != "fashim_reference") { print file ": " name ": " $0; failed = 1 }
		}
		/Used [0-9]+ registers/ {
			match($0, /Used [0-9]+/)
			if (verbose) print name, substr($0, RSTART + 5, RLENGTH - 5), "registers"
		}
		END {
			if (!kernels) { print file ": no kernel in it"; failed = 1 }
			exit failed
		}' "$file" || bad=1
done
exit $bad
