#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_ptxas.sh FILE...: what `ptxas -v` said of each kernel. Fails if one spills registers to memory,
# has its wgmma instructions serialized (ptxas only remarks on that; it costs half the speed), or is in a
# part where kernels/images.c does not look for it, or if a report names no kernel at all. The reference may
# spill: it calls double-precision subroutines, and speed is not its aim. VERBOSE=1 prints a line per kernel:
# registers, bytes spilled, remarks.
[ $# -gt 0 ] || { echo "usage: check_ptxas.sh FILE..." >&2; exit 2; }
bad=0
for file; do
	awk -v file="$file" -v verbose="$VERBOSE" '
		function number_before(words) { # "..., 8 bytes spill stores": 8
			return match($0, "[0-9]+ " words) ? substr($0, RSTART) + 0 : 0
		}
		function is_new(name) { if (!(name in seen)) { seen[name] = 1; order[++kernels] = name } }
		/Compiling entry function/ || /Function properties for/ {
			name = $NF
			if (/Compiling/) { split($0, part, "\047"); name = part[2] }
			is_new(name)
		}
		/bytes spill stores/ {
			spilled[name] = number_before("bytes spill stores") + number_before("bytes spill loads")
		}
		/Used [0-9]+ registers/ { registers[name] = number_before("registers") }
		/wgmma/ && /serialized/ {
			of = match($0, /function \047[^\047]+\047/) ? substr($0, RSTART + 10, RLENGTH - 11) : name
			is_new(of)
			serialized[of]++
		}
		END {
			family = file
			sub(".*/", "", family)
			sub("[.]ptxas$", "", family)
			for (k = 1; k <= kernels; k++) {
				name = order[k]
				if (verbose)
					printf "%-40s %3d registers %4d bytes spilled %d serialized\n", name, \
						registers[name], spilled[name], serialized[name]
				if (spilled[name] && name != "fashim_reference") {
					print file ": " name ": " spilled[name] " bytes spilled"; failed = 1
				}
				if (family != "helpers" && index(name, "fashim_" family "_") != 1) {
					print file ": " name ": not of this part"; failed = 1
				}
				if (serialized[name]) { print file ": " name ": wgmma serialized"; failed = 1 }
			}
			if (!kernels) { print file ": no kernel in it"; failed = 1 }
			exit failed
		}' "$file" || bad=1
done
exit $bad
