# SPDX-License-Identifier: Apache-2.0
#
# Reads the files of tools/man/describe.sh, "commands" first, into
#
#     name[1..commands], what[name]
#     options[name], short[name, i], long[name, i], argument[name, i], text[name, i]
#     values[name, i]     the words that an option takes, "" when it is no list of words
#     words[name]         the words that may follow the command, likewise
#     starts[name]        it is followed by a program and that one's arguments
#
# for the END block of one shell.

BEGIN { FS = "\t" }

FNR == 1 {
	file = FILENAME
	sub(/.*\//, "", file)
}

file == "commands" {
	name[++commands] = $1
	what[$1] = $2
	next
}

$1 == "usage" {
	starts[file] = $2 ~ /PROGRAM/
	if (match($2, /\[[a-z]+(\|[a-z]+)+\]/)) {
		words[file] = substr($2, RSTART + 1, RLENGTH - 2)
		gsub(/\|/, " ", words[file])
	}
}

$1 == "option" {
	i = ++options[file]
	short[file, i] = $2 == "-" ? "" : substr($2, 2)
	long[file, i] = substr($3, 3)
	argument[file, i] = $4 == "-" ? "" : $4
	text[file, i] = $5
	list = $5
	gsub(/ \(default\)/, "", list)
	if (list ~ /^[a-z]+(, [a-z]+)* or [a-z]+$/) {
		gsub(/, | or /, " ", list)
		values[file, i] = list
	}
}
