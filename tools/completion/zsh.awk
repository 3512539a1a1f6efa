# SPDX-License-Identifier: Apache-2.0
#
# zsh: an _arguments call for each command.

# For use inside single quotes and an _arguments specification.
function safe(string)
{
	gsub(/[\[\]:\\]/, "\\\\&", string)
	gsub(/'/, "'\\''", string)
	return string
}

END {
	print "#compdef fashim"
	print "# fashim completion for zsh; generated."
	print "_fashim()"
	print "{"
	print "\tlocal -a commands"
	print "\tcommands=("
	for (c = 1; c <= commands; c++)
		printf "\t\t'%s:%s'\n", name[c], safe(what[name[c]])
	print "\t)"
	print "\tif ((CURRENT == 2)); then"
	print "\t\t_describe -t commands 'fashim command' commands"
	print "\t\t_files"
	print "\t\treturn"
	print "\tfi"
	print "\tlocal command=$words[2]"
	print "\tshift words"
	print "\t((CURRENT--))"
	print "\tcase $command in"
	for (c = 1; c <= commands; c++) {
		if (name[c] == "help")
			print "\thelp) _describe -t commands 'fashim command' commands ;;"
		if (!options[name[c]])
			continue
		printf "\t%s)\n\t\t_arguments", name[c]
		for (i = 1; i <= options[name[c]]; i++) {
			value = argument[name[c], i] == "" ? "" : \
				":" safe(argument[name[c], i]) ":" \
				(values[name[c], i] == "" ? "_files" : "(" values[name[c], i] ")")
			printf " \\\n\t\t\t'--%s%s[%s]%s'", long[name[c], i], value == "" ? "" : "=",
				safe(text[name[c], i]), value
			if (short[name[c], i] != "")
				printf " \\\n\t\t\t'-%s[%s]%s'", safe(short[name[c], i]),
					safe(text[name[c], i]), value
		}
		if (starts[name[c]])
			print " \\\n\t\t\t'(-):program:_command_names -e' '*::arguments:_normal' ;;"
		else if (words[name[c]] != "")
			printf " \\\n\t\t\t':table:(%s)' ;;\n", words[name[c]]
		else
			print " \\\n\t\t\t'*:log:_files' ;;"
	}
	print "\tesac"
	print "}"
	print "_fashim \"$@\""
}
