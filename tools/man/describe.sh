#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# describe.sh FASHIM DIR: asks the command about itself. DIR/commands gets a line for each command, its
# name and what it is for; DIR/COMMAND what help.awk makes of its help, where it has one of its own.

set -eu
fashim=$1
dir=$2
here=$(dirname "$0")
general=$("$fashim" help)

mkdir -p "$dir"
# The commands stand between two empty lines, indented by two.
"$fashim" help | sed -n 's/^  \([a-z]\{1,\}\)  *\(.*\)$/\1	\2/p' >"$dir/commands"
while IFS='	' read -r command _; do
	help=$(ARGP_HELP_FMT='opt-doc-col=50,rmargin=4000' "$fashim" help "$command")
	[ "$help" != "$general" ] || continue
	printf '%s\n' "$help" | awk -f "$here/help.awk" >"$dir/$command"
done <"$dir/commands"
