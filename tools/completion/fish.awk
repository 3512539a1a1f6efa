# SPDX-License-Identifier: Apache-2.0
#
# fish: a complete line for each command and each option.

function safe(string)
{
	gsub(/[\\']/, "\\\\&", string)
	return "'" string "'"
}

END {
	print "# fashim completion for fish; generated."
	for (c = 1; c <= commands; c++)
		printf "complete -c fashim -n __fish_use_subcommand -a %s -d %s\n", name[c], safe(what[name[c]])
	for (c = 1; c <= commands; c++) {
		here = "complete -c fashim -n '__fish_seen_subcommand_from " name[c] "'"
		for (i = 1; i <= options[name[c]]; i++) {
			line = here " -l " long[name[c], i]
			if (short[name[c], i] != "" && short[name[c], i] != "?")
				line = line " -s " short[name[c], i]
			if (values[name[c], i] != "")
				line = line " -x -a '" values[name[c], i] "'"
			else if (argument[name[c], i] != "")
				line = line " -r"
			print line " -d " safe(text[name[c], i])
		}
		if (words[name[c]] != "")
			print here " -f -a '" words[name[c]] "'"
		if (starts[name[c]])
			print here " -a '(__fish_complete_subcommand)'"
	}
}
