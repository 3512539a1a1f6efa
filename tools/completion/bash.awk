# SPDX-License-Identifier: Apache-2.0
#
# bash: one function; what may follow is looked up by command and by the word before.

function names(command,    i, list)
{
	for (i = 1; i <= options[command]; i++)
		list = list (i > 1 ? " " : "") "--" long[command, i] (argument[command, i] == "" ? "" : "=")
	return list
}

# Options that take the word behind them.
function takers(command,    i, list)
{
	for (i = 1; i <= options[command]; i++)
		if (argument[command, i] != "")
			list = list " --" long[command, i] (short[command, i] == "" ? "" : " -" short[command, i])
	return list " "
}

# The pattern of an option behind its command, for `case`.
function pattern(command, i)
{
	return command ":--" long[command, i] (short[command, i] == "" ? "" : " | " command ":-" short[command, i])
}

END {
	print "# fashim completion for bash; generated."
	print "_fashim()"
	print "{"
	print "\tlocal current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}"
	print "\tlocal command=${COMP_WORDS[1]} options= words= values= takers= files= i"
	print ""
	print "\tCOMPREPLY=()"
	print "\tif [ \"$COMP_CWORD\" = 1 ]; then"
	printf "\t\tmapfile -t COMPREPLY < <(compgen -W '"
	for (c = 1; c <= commands; c++)
		printf "%s%s", (c > 1 ? " " : ""), name[c]
	print "' -- \"$current\"; compgen -f -- \"$current\")"
	print "\t\tcompopt -o filenames 2>/dev/null"
	print "\t\treturn"
	print "\tfi"
	print "\t# \"--format=x\" comes as three words."
	print "\tif [ \"$current\" = = ]; then"
	print "\t\tcurrent="
	print "\telif [ \"$previous\" = = ]; then"
	print "\t\tprevious=${COMP_WORDS[COMP_CWORD-2]}"
	print "\tfi"
	print "\tcase $command in"
	for (c = 1; c <= commands; c++) {
		if (name[c] == "help") {
			printf "\thelp) words='"
			for (d = 1; d <= commands; d++)
				printf "%s%s", (d > 1 ? " " : ""), name[d]
			print "' ;;"
		}
		if (!options[name[c]])
			continue
		printf "\t%s) options='%s' words='%s' takers='%s' ;;\n", name[c], names(name[c]), words[name[c]],
			(starts[name[c]] ? takers(name[c]) : "")
	}
	print "\tesac"
	print "\tcase $command:$previous in"
	for (c = 1; c <= commands; c++)
		for (i = 1; i <= options[name[c]]; i++)
			if (values[name[c], i] != "")
				printf "\t%s) values='%s' ;;\n", pattern(name[c], i), values[name[c], i]
			else if (argument[name[c], i] != "")
				printf "\t%s) files=1 ;;\n", pattern(name[c], i)
	print "\tesac"
	print "\tif [ -n \"$values\" ]; then"
	print "\t\tCOMPREPLY=($(compgen -W \"$values\" -- \"$current\"))"
	print "\t\treturn"
	print "\tfi"
	print "\tif [ -n \"$files\" ]; then"
	print "\t\tcompopt -o filenames 2>/dev/null"
	print "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$current\")"
	print "\t\treturn"
	print "\tfi"
	print "\tif [ -n \"$takers\" ]; then"
	print "\t\tfor ((i = 2; i < COMP_CWORD; i++)); do"
	print "\t\t\tcase ${COMP_WORDS[i]} in"
	print "\t\t\t-*)"
	print "\t\t\t\t[[ $takers != *\" ${COMP_WORDS[i]} \"* ]] || ((i++))"
	print "\t\t\t\t[ \"${COMP_WORDS[i]-}\" != = ] || ((i++)) ;;"
	print "\t\t\t*)"
	print "\t\t\t\t[ \"$(type -t _command_offset)\" = function ] && _command_offset $i && return"
	print "\t\t\t\tbreak ;;"
	print "\t\t\tesac"
	print "\t\tdone"
	print "\tfi"
	print "\tcase $current in"
	print "\t-*)"
	print "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$current\"))"
	print "\t\t[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null ;;"
	print "\t*)"
	print "\t\tif [ -n \"$words\" ]; then"
	print "\t\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$current\"))"
	print "\t\telse"
	print "\t\t\tcompopt -o filenames 2>/dev/null"
	print "\t\t\tmapfile -t COMPREPLY < <([ -z \"$takers\" ] || compgen -c -- \"$current\"; compgen -f -- \"$current\")"
	print "\t\tfi ;;"
	print "\tesac"
	print "}"
	print "complete -o bashdefault -F _fashim fashim"
}
