#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# readme.sh BUILD [--update]: the README's tables of options and reasons must be those that the command
# is compiled from. Says where they differ; --update writes them anew.

set -eu
build=$1
readme=$(dirname "$0")/../../README.md
wanted=$(mktemp)
trap 'rm -f "$wanted"' EXIT

# What stands between "<!-- begin NAME -->" and "<!-- end NAME -->" is replaced by standard input.
replace()
{
	awk -v name="$1" -v table="$2" '
		$0 == "<!-- end " name " -->" { skip = 0 }
		!skip { print }
		$0 == "<!-- begin " name " -->" { skip = 1; while ((getline line <table) > 0) print line }
	' "$3"
}

table=$(mktemp)
trap 'rm -f "$wanted" "$wanted.2" "$table"' EXIT
env -i "$build/fashim" env --format=markdown >"$table"
replace options "$table" "$readme" >"$wanted"
env -i "$build/fashim" reasons --format=markdown >"$table"
replace reasons "$table" "$wanted" >"$wanted.2"
if [ "${2-}" = --update ]; then
	cat "$wanted.2" >"$readme"
else
	diff -u "$readme" "$wanted.2" || { echo "README.md is behind the sources: make readme"; exit 1; }
fi
