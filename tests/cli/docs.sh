#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# docs.sh BUILD: the manual pages and completions must name every command, every option, every reason
# and every environment variable, and must be well-formed. Says what is missing; ends with how many
# names were looked for.

set -u
build=$(cd "${1:?usage: docs.sh BUILD}" && pwd)
fashim=$build/fashim
man=$build/man
completion=$build/completion
missing=0
looked=0

# holds FILE TEXT: the text as a word of its own; pages write "-" as "\-" and change fonts by "\fB".
holds()
{
	looked=$((looked + 1))
	sed 's/\\f[BIR]//g; s/\\-/-/g' "$1" | grep -qE -- "(^|[^[:alnum:]_-])$2([^[:alnum:]_-]|\$)" && return
	echo "${1#"$build"/} lacks $2"
	missing=$((missing + 1))
}

commands=$("$fashim" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
for command in $commands; do
	holds "$man/fashim.1" "fashim[ -]$command"
	for file in fashim _fashim fashim.fish; do
		holds "$completion/$file" "$command"
	done
	[ "$("$fashim" help "$command")" != "$("$fashim" help)" ] || continue
	for option in $("$fashim" "$command" --help | grep -oE '^ {2,6}(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
		holds "$man/fashim-$command.1" "$option"
		holds "$completion/fashim" "$option"
		holds "$completion/_fashim" "$option"
		holds "$completion/fashim.fish" "-l ${option#--}"
	done
done
for name in $("$fashim" list options -f tsv | cut -f1) $("$fashim" list reasons -f tsv | cut -f1); do
	holds "$man/fashim.7" "$name"
done
while read -r type; do
	holds "$man/fashim.7" "\"type\":\"$type\""
done < <(grep -o '^ \* {"type":"[a-z]*"' "$(dirname "$0")/../../shim/log/log_format.h" | cut -d'"' -f4)
[ "$looked" -gt 200 ] || { echo "only $looked names were looked for"; missing=1; }

# check SHELL-OR-TOOL ARGUMENT...: only where it is installed.
check()
{
	command -v "$1" >/dev/null || return 0
	"$@" || { echo "$* failed"; missing=$((missing + 1)); }
}
for page in "$man"/*; do
	check mandoc -Tlint -W error "$page"
done
check bash -n "$completion/fashim"
check zsh -n "$completion/_fashim"
check fish -n "$completion/fashim.fish"

# What bash offers.
offered()
{
	(
		# shellcheck disable=SC1091 # made by the build
		. "$completion/fashim"
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		COMPREPLY=()
		_fashim
		echo "${COMPREPLY[*]}"
	)
}
offers() # WANTED WORD...
{
	local wanted=$1 got

	shift
	got=$(cd "$build/man" && offered "$@")
	[ "$got" = "$wanted" ] && return
	echo "after '$*' bash offers '$got', not '$wanted'"
	missing=$((missing + 1))
}
offers 'doctor' fashim doc
offers '--format=' fashim doctor --fo
offers 'json' fashim doctor --format = j
offers 'audit' fashim run -m a
offers 'rules reasons' fashim list r
offers 'doctor' fashim help doc
offers 'fashim-run.1' fashim report fashim-ru
offers 'fashim-run.1' fashim run -m audit fashim-ru
offers 'fashim-list.1' fashim run -o fashim-l
offers 'fashim-list.1' fashim run --output = fashim-l

# What the keys do: a bash on a terminal, with a function in the command's place.
keys()
{
	local place

	place=$(mktemp -d)
	: >"$place/a log"
	printf '%s\n' "fashim() { printf '<%s>' \"\$@\" >>'$place/typed'; echo >>'$place/typed'; }" "PS1=; . '$completion/fashim'" >"$place/rc"
	(
		cd "$place" || exit
		printf '%b' "$1" 'exit\n' | TERM=dumb script -qec 'bash --noprofile --rcfile rc -i' /dev/null >/dev/null 2>&1
		cat typed
	)
	rm -r "$place"
}
typed=$(keys 'fashim report --form\tj\t x\nfashim report --output=a\t\nfashim run -o a\t\nfashim run --outp\ta\t\n')
[ "$typed" = '<report><--format=json><x>
<report><--output=a log>
<run><-o><a log>
<run><--output=a log>' ] || { echo "the keys gave:"; echo "$typed"; missing=$((missing + 1)); }

[ $missing = 0 ] && echo "$looked names found"
