# SPDX-License-Identifier: Apache-2.0
#
# A manual page of one command, from the lines of help.awk. -v command= name, what= one line on it,
# version=, date=, others= the other pages, comma-separated.

function roff(text)
{
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	gsub(/'/, "\\(aq", text)
	gsub(/`/, "\\(ga", text)
	if (text ~ /^\./)
		text = "\\&" text
	return text
}

BEGIN {
	FS = "\t"
	printf ".TH FASHIM\\-%s 1 %s \"fashim %s\" \"fashim manual\"\n", toupper(command), date, version
	printf ".SH NAME\nfashim\\-%s \\- %s\n", command, roff(what)
}

$1 == "usage" {
	printf ".SH SYNOPSIS\n.B fashim %s\n%s\n", command, roff($2)
}

$1 == "about" {
	if (!about++)
		print ".SH DESCRIPTION"
	print roff($2)
}

$1 == "option" {
	if (!options++)
		print ".SH OPTIONS"
	print ".TP"
	if ($2 != "-")
		printf "\\fB%s\\fR%s", roff($2), $3 == "-" ? "\n" : ", "
	if ($3 != "-")
		printf "\\fB%s\\fR%s\n", roff($3), $4 == "-" ? "" : "=\\fI" roff($4) "\\fR"
	print roff($5)
}

# An empty line ends a paragraph; "Exit status:" begins a section; an indented line keeps its place, as
# do all behind "Examples:", which come last.
$1 == "note" && $2 == "" { paragraph = 1; next }

$1 == "note" && $2 == "Examples:" {
	print ".SH EXAMPLES\n.nf"
	examples = 1
	next
}

$1 == "note" {
	text = $2
	if (sub(/^Exit status: /, "", text))
		print ".SH EXIT STATUS"
	else if (!notes++)
		print ".SH NOTES"
	else if (paragraph && text !~ /^  /)
		print ".PP"
	paragraph = 0
	if (examples)
		sub(/^  /, "", text)
	print roff(text)
}

END {
	if (examples)
		print ".fi"
	print ".SH SEE ALSO"
	count = split(others, page, ",")
	for (i = 1; i <= count; i++)
		printf ".BR %s (%s)%s\n", roff(page[i]), page[i] ~ /7$/ ? 7 : 1, i < count ? "," : ""
}
