#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD [--update]: golden tests of the command. Each case is one line below: a name, the exit
# code, a shell command. Its stdout and stderr must be expected/NAME.out and .err, byte for byte; a
# file that is not there stands for no output. --update writes them; look at the difference before
# keeping it. Ends with "N passed, N failed".
#
# The commands are expanded by the shell that runs each, hence the single quotes:
# shellcheck disable=SC2016

set -u
build=$(cd "${1:?usage: run.sh BUILD [--update]}" && pwd)
update=${2-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# A place that looks like a build folder and one that looks like an installation.
mkdir -p "$work/bin" "$work/prefix/bin" "$work/prefix/lib/fashim" "$work/alone" "$work/dir"
cp "$build/fashim" "$work/bin/"
cp "$build/fashim" "$work/prefix/bin/"
cp "$build/fashim" "$work/alone/"
cp "$build/tests/cli/fake.so" "$work/bin/libfashim.so"
cp "$build/tests/cli/fake.so" "$work/prefix/lib/fashim/libfashim.so"
cp "$build/tests/cli/ended" "$work/bin/"
cp "$build/tests/cli/static" "$work/static"
cp -r "$here/logs" "$here/leave_log.sh" "$work/"
cp "$work/logs/replace.jsonl" "$work/logs/compare.jsonl" "$work/dir/"
cp "$work/logs/killed.jsonl" "$work/killed_live.jsonl"
cp "$work/logs/killed.jsonl" "$work/killed_version.jsonl"
cp "$work/logs/killed.jsonl" "$work/killed_short.jsonl"
"$build/tests/cli/live" "$work/killed_live.jsonl.live"
"$build/tests/cli/live" "$work/killed_version.jsonl.live" version
"$build/tests/cli/live" "$work/killed_short.jsonl.live" short
mkdir "$work/none" "$work/deep"
printf 'not executable\n' >"$work/plain_file"
printf '#!/nonexistent/interpreter\n' >"$work/bad_script"
chmod +x "$work/bad_script"
cat "$work/logs/gemms.jsonl" "$work/logs/replace.jsonl" >"$work/two_runs.jsonl"

unset "${!FASHIM@}" LD_PRELOAD RANK OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID NO_COLOR
# A sanitised command started with something else preloaded is no mistake here.
export ASAN_OPTIONS="verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export LC_ALL=C.UTF-8 TERM=xterm PATH="$work/bin:$PATH"
cd "$work" || exit 1

# What differs from machine to machine and from run to run.
normalise()
{
	sed -E "s#$work#@WORK@#g; s#(app|out)\.[0-9]+(\.[0-9]+)?\.jsonl#\1.@PID@.jsonl#g" |
		sed -E 's#fashim [0-9]+\.[0-9]+\.[0-9]+$#fashim @VERSION@#'
}

# same NAME SUFFIX FILE: compares, or updates. An expected file that is missing means no output.
same()
{
	local expected="$here/expected/$1.$2"

	normalise <"$3" >"$work/normalised"
	if [ "$update" = --update ]; then
		if [ -s "$work/normalised" ]; then cp "$work/normalised" "$expected"; else rm -f "$expected"; fi
		return 0
	fi
	[ -e "$expected" ] || expected=/dev/null
	diff -u "$expected" "$work/normalised" >"$work/difference" && return 0
	echo "FAILED $1: $2 differs"
	cat "$work/difference"
	return 1
}

verdict()
{
	if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# t NAME EXIT COMMAND
t()
{
	local code bad=0

	bash -c "$3" >"$work/stdout" 2>"$work/stderr" </dev/null
	code=$?
	if [ "$code" != "$2" ]; then
		echo "FAILED $1: exit code $code, not $2"
		cat "$work/stderr"
		bad=1
	fi
	same "$1" out "$work/stdout" || bad=1
	same "$1" err "$work/stderr" || bad=1
	rm -f "$work"/fashim.*.jsonl*
	verdict $bad
}

# holds NAME COMMAND: no golden file, the command itself decides.
holds()
{
	if bash -c "$2" >"$work/stdout" 2>&1 </dev/null; then
		verdict 0
	else
		echo "FAILED $1"
		cat "$work/stdout"
		verdict 1
	fi
	rm -f "$work"/fashim.*.jsonl*
}

mkdir -p "$here/expected"

# ---- commands and typos
t version 0 'fashim version'
t version_option 0 'fashim --version'
t help 0 'fashim help'
t help_run 0 'fashim help run'
t help_report 0 'fashim help report'
t help_env 0 'fashim help env'
t no_arguments 2 'fashim'
t typo 2 'fashim reprot x.jsonl'
t ambiguous 2 'fashim r x.jsonl'
t prefix 0 'fashim v'
t unknown_word 2 'fashim frobnicate'
t help_unknown 2 'fashim help reprot'

# ---- run: the program must not notice
t exit_code 3 'fashim run -- sh -c "exit 3"'
t exit_through_path 4 'printf "#!/bin/sh\nexit 4\n" >p.sh; chmod +x p.sh; fashim ./p.sh'
t exit_through_name 4 'fashim p.sh'
t signal 0 'ended fashim run sh -c "kill -SEGV \$\$"'
t signal_kill 0 'ended fashim run sh -c "kill -KILL \$\$"'
t signal_core 0 'ulimit -c unlimited 2>/dev/null; ended fashim run sh -c "ulimit -c 0; kill -ABRT \$\$"'
t not_found 127 'fashim run no-such-program-here'
t not_found_path 127 'fashim ./no/such/program'
t not_executable 126 'fashim run ./plain_file'
t directory 126 'fashim run ./logs'
t bad_interpreter 127 'fashim run ./bad_script'
t no_library 125 'alone/fashim run true'
t installed 0 'prefix/bin/fashim run sh -c "echo \$LD_PRELOAD"'
t no_program 125 'fashim run'
t bad_mode 125 'fashim run --mode=repalce true'
t bad_option 125 'fashim run --frob true'
t bad_assignment 125 'fashim run -e NOVALUE true'
t bad_option_name 125 'fashim run -e FASHIM_SAMPEL=3 true'
t own_options 0 'fashim run sh -c "printf \"%s \" \$0 \$1" -n --mode'
t dry 0 "fashim run -n -m audit -o 'my log.%p.jsonl' -e A=\"it's\" ./app 'x y' --z"
t dry_default 0 'fashim run -n ./app'
t dry_preload 0 'LD_PRELOAD=libm.so.6 fashim run -n ./app'
t dry_nested 0 "LD_PRELOAD=$work/bin/libfashim.so:libm.so.6 fashim run -n ./app"
t dry_percent 0 'mkdir -p 50%p; cd 50%p; fashim run -n ./app'
t environment 0 'fashim run -m compare -o x.%p.jsonl -e FOO=bar sh -c "echo \$FASHIM \$FASHIM_OUT \$FOO"'
t space_in_path 125 'mkdir -p "a b"; cp bin/fashim bin/libfashim.so "a b"; "a b/fashim" run true'
holds stdout_untouched 'head -c 300000 /dev/urandom >in; fashim run cat <in >out 2>err && cmp in out'
holds stderr_first 'fashim run sh -c "echo mine >&2" 2>err; head -1 err | grep -qx mine; exit $?'
holds arguments_exact 'fashim run printf "%s|" a "b c" "" "*" >out 2>/dev/null; [ "$(cat out)" = "a|b c||*|" ]'
holds forwards_term '
	fashim run sh -c "trap \"echo got TERM; exit 7\" TERM; echo ready; while :; do sleep 0.05; done" >out 2>err &
	for i in $(seq 100); do grep -q ready out && break; sleep 0.05; done
	kill -TERM $!; wait $!; [ $? = 7 ] && grep -q "got TERM" out'
holds forwards_int_usr1 '
	ended fashim run sh -c "trap \"echo got USR1\" USR1; echo ready; while :; do sleep 0.05; done" >out 2>err &
	for i in $(seq 100); do grep -q ready out && break; sleep 0.05; done
	tool=$(pgrep -P $! -x fashim)
	kill -USR1 $tool
	for i in $(seq 100); do grep -q "got USR1" out && break; sleep 0.05; done
	kill -HUP $tool; wait $!; grep -q "got USR1" out && grep -qx "signal 1" err'
holds stop_and_continue '
	fashim run sh -c "echo \$\$ ready; kill -STOP \$\$; echo woken; exit 6" >out 2>err &
	for i in $(seq 100); do grep -q ready out && break; sleep 0.05; done
	for i in $(seq 100); do grep -q "^State:.T" /proc/$(cut -d" " -f1 out)/status && break; sleep 0.05; done
	kill -CONT $(cut -d" " -f1 out); wait $!; [ $? = 6 ] && grep -q woken out'
holds ignored_stay_ignored 'trap "" HUP; fashim run sh -c "kill -HUP \$\$; echo survived" 2>/dev/null | grep -qx survived'
holds sigchld_ignored 'trap "" CHLD; fashim run sh -c "exit 5" 2>/dev/null; [ $? = 5 ]'

# ---- run: its last words
t closing_nothing 0 'fashim run true'
t closing_off 0 'fashim run --mode off true'
t closing_none 0 'fashim run -o none true'
t closing_static 0 'fashim run ./static true'
t closing_replace 0 'fashim run ./leave_log.sh logs/replace.jsonl'
t closing_compare 0 'fashim run ./leave_log.sh logs/compare.jsonl'
t closing_gemms 0 'fashim run ./leave_log.sh logs/gemms.jsonl'
t closing_killed 0 'fashim run ./leave_log.sh killed_live.jsonl'
t closing_output 0 'fashim run -o out.%p.jsonl ./leave_log.sh logs/replace.jsonl; rm -f out.*.jsonl'
t closing_numbered 0 'cp logs/gemms.jsonl own.jsonl; fashim run -o own.jsonl ./leave_log.sh logs/replace.jsonl 1; rm -f own*'
t closing_elsewhere 0 'fashim run sh -c "cd none; exec ../leave_log.sh ../logs/replace.jsonl"; ls none'
t closing_children 0 'fashim run sh -c "./leave_log.sh logs/replace.jsonl; ./leave_log.sh logs/compare.jsonl; exit 9"; echo $?'
t closing_rank 0 'RANK=0 fashim run sh -c "./leave_log.sh logs/replace.jsonl; exec ./leave_log.sh logs/gemms.jsonl"'
t closing_junk 0 'fashim run ./leave_log.sh logs/headless.jsonl'
t closing_others 0 'cp logs/replace.jsonl fashim.app.1.jsonl; fashim run true'
holds closing_command_works 'fashim run ./leave_log.sh logs/replace.jsonl 2>err >/dev/null; eval "$(sed -n "s/^fashim: next: //p" err)"'

# ---- report
t report_replace 0 'fashim report logs/replace.jsonl'
t report_ascii 0 'LC_ALL=C fashim report logs/replace.jsonl'
t report_color 0 'fashim report --color=always logs/replace.jsonl'
t report_compare 0 'fashim report logs/compare.jsonl'
t report_gemms 0 'fashim report logs/gemms.jsonl'
t report_site 0 'fashim report --site 1 logs/replace.jsonl'
t report_site_declined 0 'fashim report --site 3 logs/replace.jsonl'
t report_site_missing 1 'fashim report --site 9 logs/replace.jsonl'
t report_json 0 'fashim report --format=json logs/replace.jsonl'
t report_json_compare 0 'fashim report --format=json logs/compare.jsonl'
t report_json_killed 0 'fashim report --format=json killed_live.jsonl'
t report_several 0 'fashim report logs/replace.jsonl logs/compare.jsonl'
t report_directory 0 'fashim report dir'
t report_two_runs 0 'fashim report two_runs.jsonl'
t report_many_logs 0 'fashim report logs/gemms.jsonl logs/replace.jsonl logs/killed.jsonl killed_live.jsonl logs/compare.jsonl'
t report_simulated 0 'sed "1s/Example GPU/simgpu (CPU)/" logs/replace.jsonl >simulated.jsonl; fashim report simulated.jsonl | head -12; fashim run ./leave_log.sh simulated.jsonl'
t report_pipe 0 'fashim report <(cat logs/gemms.jsonl) | sed 1d'
t report_killed 0 'fashim report killed_live.jsonl'
t report_killed_no_live 0 'fashim report logs/killed.jsonl'
t report_killed_version 0 'fashim report killed_version.jsonl | sed -n 4p'
t report_killed_short 0 'fashim report killed_short.jsonl | sed -n 4p'
t report_holes 0 'fashim report logs/holes.jsonl'
t report_escapes 0 'fashim report --site 1 logs/escapes.jsonl'
t report_missing 1 'fashim report no_such.jsonl'
t report_empty 1 'fashim report logs/empty.jsonl'
t report_junk 1 'fashim report logs/junk.bin'
t report_version 1 'fashim report logs/version.jsonl'
t report_headless 1 'fashim report logs/headless.jsonl'
t report_other 1 'fashim report logs/other.jsonl'
t report_cut 1 'fashim report logs/cut.jsonl'
t report_empty_directory 1 'fashim report none'
t report_one_bad 1 'fashim report no_such.jsonl logs/gemms.jsonl'
t report_no_log 2 'fashim report'
t report_bad_format 2 'fashim report --format=xml logs/replace.jsonl'
t report_bad_site 2 'fashim report --site=-1 logs/replace.jsonl'
t report_bad_color 2 'fashim report --color=sometimes logs/replace.jsonl'
t report_full_disk 1 'fashim report logs/replace.jsonl >/dev/full'
holds report_no_color_in_pipe '! fashim report logs/replace.jsonl | grep -q "$(printf "\033")"'
holds report_random_bytes '
	for i in 1 2 3 4 5; do
		head -c 4000000 /dev/urandom >random; fashim report random 2>err; [ $? = 1 ] || exit 1
		[ "$(wc -l <err)" = 1 ] || exit 1
		{ head -2 logs/replace.jsonl; cat random; } >mixed; fashim report mixed >/dev/null 2>&1 || exit 1
	done'
holds report_every_cut '
	size=$(stat -c %s logs/replace.jsonl)
	for ((i = 1; i < size; i += 97)); do
		head -c $i logs/replace.jsonl >part; fashim report part >/dev/null 2>&1; [ $? -le 1 ] || exit 1
	done'
holds report_many_samples '
	line="$(sed -n 4p logs/replace.jsonl)"
	{ head -2 logs/replace.jsonl; yes "$line" | head -300000; } >many
	(grep -q __asan "$(command -v fashim)" || ulimit -v 200000; fashim report many >out) && grep -q "900.0 ± 0.0" out'

# ---- env
# The whole tables are the README's, compared below.
t reasons 0 'fashim reasons | head -3'
t reasons_json 0 'fashim reasons -f json | head -12'
t env 0 'fashim env | sed "s/ *$//; s/  */ /g" | head -3'
t env_json 0 'FASHIM=audit fashim env --format=json | head -12'
t env_typo 0 'FASHIM_SAMPEL=8 FASHIM_XYZZY=1 FASHIM=compare fashim env | sed "s/  */ /g" | head -2'
t env_invalid 0 'FASHIM=maybe FASHIM_SAMPLE=-1 FASHIM_TOL=nan FASHIM_POISON=yes fashim env | grep -E "^FASHIM(_SAMPLE|_TOL|_POISON)? " | sed -E "s/ +/ /g" | cut -d" " -f1-3'
t env_bad_format 2 'fashim env --format=yaml'
t env_argument 2 'fashim env x'
holds scanner "'$build/tests/cli/test_scan'"
holds readme_tables "'$here/readme.sh' '$build'"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
