#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# generate.sh DESCRIBED OUT: writes OUT/fashim (bash), OUT/_fashim (zsh) and OUT/fashim.fish from what
# tools/man/describe.sh found out about the command. An option whose text is a list of words, "table
# (default), json or csv", is completed with these, a usage of "[a|b|c]" likewise, all else with files.

set -eu
described=$1
out=$2
here=$(dirname "$0")

# Commands without help of their own have no file.
set -- "$described/commands"
while IFS='	' read -r command _; do
	[ ! -e "$described/$command" ] || set -- "$@" "$described/$command"
done <"$described/commands"
mkdir -p "$out"
for row in bash:fashim zsh:_fashim fish:fashim.fish; do
	awk -f "$here/words.awk" -f "$here/${row%%:*}.awk" "$@" >"$out/${row#*:}"
done
