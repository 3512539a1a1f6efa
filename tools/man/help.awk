# SPDX-License-Identifier: Apache-2.0
#
# From what `fashim help COMMAND` prints, unwrapped, to lines of tab-separated fields:
#
#     usage   [OPTION...] LOG...
#     about   what the command does
#     option  -f   --format   FORMAT   table (default) or json       "-" for what there is not
#     note    a line of the text below the options
#
# The manual pages and the completions are both made of these.

BEGIN { OFS = "\t" }

part == "" && /^Usage: / {
	sub(/^Usage: fashim [a-z]+ */, "")
	print "usage", $0
	part = "about"
	next
}
part == "about" && /^$/ { part = "options"; next }
part == "about" { print "about", $0; next }
part == "options" && /^  / {
	short = long = argument = "-"
	if (match($0, /^  -[^ -],/))
		short = substr($0, 3, 2)
	if (match($0, /--[^ ]+/)) {
		long = substr($0, RSTART, RLENGTH)
		if (at = index(long, "=")) {
			argument = substr(long, at + 1)
			long = substr(long, 1, at - 1)
		}
	}
	text = substr($0, 51)
	print "option", short, long, argument, text
	next
}
/^Mandatory or optional arguments/ { part = "notes"; getline; next }
part == "options" && /^( [^ ].*)?$/ { next } # between groups, and what heads one
{ part = "notes"; print "note", $0 }
