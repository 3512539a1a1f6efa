#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pages.sh FASHIM DESCRIBED LOG_FORMAT OUT: writes fashim(1), a page for each command and fashim(7) to
# OUT. Nothing about commands, options, reasons or the log is written here: it is asked of the command
# FASHIM (DESCRIBED: what describe.sh made of it) and taken from the header LOG_FORMAT.

set -eu
fashim=$1
described=$2
log_format=$3
out=$4
here=$(dirname "$0")
version=$("$fashim" --version | cut -d' ' -f2)
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}" +%F)

escape()
{
	sed "s/\\\\/\\\\e/g; s/-/\\\\-/g; s/'/\\\\(aq/g; s/\`/\\\\(ga/g; s/^\\./\\\\\\&./"
}

heading() # NAME SECTION
{
	printf '.TH %s %s %s "fashim %s" "fashim manual"\n' "$1" "$2" "$date" "$version"
}

# Commands with a page of their own.
pages()
{
	cut -f1 "$described/commands" | while read -r command; do
		[ ! -e "$described/$command" ] || echo "$command"
	done
}

command_pages()
{
	for command in $(pages); do
		what=$(awk -F'\t' -v c="$command" '$1 == c { print $2 }' "$described/commands")
		others="fashim,$(pages | grep -vx "$command" | sed 's/^/fashim-/' | paste -sd,),fashim.7"
		awk -v command="$command" -v what="$what" -v version="$version" -v date="$date" \
			-v others="$others" -f "$here/page.awk" "$described/$command" |
			sed 's/^\.BR fashim\.7 (7)/.BR fashim (7)/' >"$out/fashim-$command.1"
	done
}

main_page()
{
	heading FASHIM 1
	cat "$here/fashim.1.in"
	echo '.SH COMMANDS'
	while IFS='	' read -r command what; do
		echo .TP
		if [ -e "$described/$command" ]; then
			printf '.BR fashim\\-%s (1)\n' "$command"
		else
			printf '.B fashim %s\n' "$command"
		fi
		printf '%s\n' "$what" | escape
	done <"$described/commands"
	cat "$here/fashim.1.tail"
	echo '.SH SEE ALSO'
	for command in $(pages); do
		printf '.BR fashim\\-%s (1),\n' "$command"
	done
	echo '.BR fashim (7)'
}

# TITLE TABLE: a list of "name, (default), text" rows.
listing()
{
	printf '.SH %s\n' "$1"
	"$fashim" list "$2" --format=tsv | escape | awk -F'\t' -v table="$2" '
		{ print ".TP" }
		table == "options" { printf ".B %s\n%s.\nDefault: %s\n", $1, $4, $2 == "" ? "none." : "\\fB" $2 "\\fR." }
		table == "reasons" { printf ".B %s\n%s.\n", $1, $2; if ($3 != "") printf "What to do: %s.\n", $3 }'
}

# The comment that begins the header, without the licence line and the stars.
log_comment()
{
	sed -n '/^ \*\//q; s/^ \* \{0,1\}//p' "$log_format" | sed '1{/^$/d;}'
}

reference_page()
{
	heading FASHIM 7
	cat "$here/fashim.7.in"
	listing ENVIRONMENT options
	listing REASONS reasons
	cat "$here/fashim.7.log"
	echo '.nf'
	log_comment | escape
	echo '.fi'
	echo '.SH SEE ALSO'
	echo '.BR fashim (1)'
}

mkdir -p "$out"
rm -f "$out"/fashim*.[17]
command_pages
main_page >"$out/fashim.1"
reference_page >"$out/fashim.7"
