#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD [--update]: golden tests of the command. Each case is one line below: a name, the exit
# code, a shell command. Its stdout and stderr must be expected/NAME.out and .err, byte for byte; a
# file that is not there stands for no output. --update writes them; look at the difference before
# keeping it. CASES, a glob, leaves out the others. Ends with "N passed, N failed".
#
# The commands are expanded by the shell that runs each, hence the single quotes:
# shellcheck disable=SC2016

set -u
build=$(cd "${1:?usage: run.sh BUILD [--update]}" && pwd) || exit 2
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
export LC_ALL=C.UTF-8 TERM=xterm XDG_STATE_HOME="$work/state" PATH="$work/bin:$PATH"
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

	# shellcheck disable=SC2053 # a glob
	[[ $1 == ${CASES-*} ]] || return 0
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
	# shellcheck disable=SC2053 # a glob
	[[ $1 == ${CASES-*} ]] || return 0
	if bash -c "$2" >"$work/stdout" 2>&1 </dev/null; then
		verdict 0
	else
		echo "FAILED $1"
		cat "$work/stdout"
		verdict 1
	fi
	rm -f "$work"/fashim.*.jsonl*
}

# random_rounds COUNT FUNCTION: FUNCTION SEED for new seeds, or for SEED alone where that is set. It makes
# the file `spoilt` of the seed; where that broke something, it calls `kept SEED` and goes on.
random_rounds()
{
	local first=${SEED:-$((RANDOM % 30000 + 1))} count=${SEED:+1} seed

	for ((seed = first; seed < first + ${count:-$1}; seed++)); do
		rm -f spoilt
		"$2" "$seed" || return 1
	done
}

# kept SEED: keeps what failed, and says where. Fails.
kept()
{
	cp spoilt "$BUILD/spoilt.$1"
	cat out
	echo "seed $1 failed (SEED=$1 runs it alone); its input is kept as $BUILD/spoilt.$1"
	return 1
}
export -f random_rounds kept
export BUILD="$build" TRACES="$here/../traces"

mkdir -p "$here/expected"

# ---- commands and typos
t version 0 'fashim version'
t version_option 0 'fashim --version'
t help 0 'fashim help'
t help_run 0 'fashim help run'
t help_report 0 'fashim help report'
t help_env 0 'fashim help env'
t help_doctor 0 'fashim help doctor'
t help_list 0 'fashim help list'
t help_replay 0 'fashim help replay'
holds help_short '
	for command in $(fashim help | sed -n "s/^  \([a-z]*\)  .*/\1/p"); do
		case $command in help | version) continue ;; esac
		fashim $command --help >long && for option in -h "-?"; do fashim $command $option 2>&1 | cmp - long || exit; done
	done'
# Every command has examples, of options that it has.
holds help_examples '
	for command in $(fashim help | sed -n "s/^  \([a-z]*\)  .*/\1/p"); do
		case $command in help | version) continue ;; esac
		fashim help $command >text; sed "1,/^Examples:$/d" text | grep "fashim $command" >examples || { echo "$command"; exit 1; }
		for option in $(sed "s/|.*//" examples | grep -o " --*[a-z][a-z-]*"); do
			sed "/^Examples:$/,\$d" text | grep -qE "^ *(-.*, *)?$option\b" || { echo "$command $option"; exit 1; }
		done
	done'
t program_in_path 3 'fashim sh -c "exit 3" 2>/dev/null'
t full_disk 1 'for words in env "env -f json" "env -f csv" "env -f md" list "list kernels" "list rules -f tsv" "reasons -f csv" reasons version help; do fashim $words >/dev/full; [ $? = 1 ] || exit 0; done; exit 1'
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
# What is to be typed next can be, as the command was.
t next_as_called 0 'mkdir "a(b"; cp bin/* "a(b"; "./a(b/fashim" run ./leave_log.sh logs/replace.jsonl 2>said; cat said; eval "$(sed -n "s/^fashim: next: //p" said)" | sed -n 2p; "a(b/fashim" run true; rm -r "a(b"'
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
	rm -f out; fashim run sh -c "trap \"echo got TERM; exit 7\" TERM; echo ready; while :; do sleep 0.05; done" >out 2>err &
	for i in $(seq 2400); do grep -qs ready out && break; sleep 0.05; done
	kill -TERM $!; wait $!; [ $? = 7 ] && grep -q "got TERM" out'
holds forwards_int_usr1 '
	rm -f out; ended fashim run sh -c "trap \"echo got USR1\" USR1; echo ready; while :; do sleep 0.05; done" >out 2>err &
	for i in $(seq 2400); do grep -qs ready out && break; sleep 0.05; done
	tool=$(for p in /proc/[0-9]*; do [ "$(cut -d" " -f2,4 "$p/stat" 2>/dev/null)" = "(fashim) $!" ] && echo "${p#/proc/}"; done)
	kill -USR1 $tool
	for i in $(seq 2400); do grep -q "got USR1" out && break; sleep 0.05; done
	kill -HUP $tool; wait $!; grep -q "got USR1" out && grep -qx "signal 1" err'
holds stop_and_continue '
	rm -f out; fashim run sh -c "echo \$\$ ready; kill -STOP \$\$; echo woken; exit 6" >out 2>err &
	for i in $(seq 2400); do grep -qs ready out && break; sleep 0.05; done
	for i in $(seq 2400); do grep -q "^State:.T" /proc/$(cut -d" " -f1 out)/status && break; sleep 0.05; done
	kill -CONT $(cut -d" " -f1 out); wait $!; [ $? = 6 ] && grep -q woken out'
holds ignored_stay_ignored 'trap "" HUP; fashim run sh -c "kill -HUP \$\$; echo survived" 2>/dev/null | grep -qx survived'
holds sigchld_ignored 'trap "" CHLD; fashim run sh -c "exit 5" 2>/dev/null; [ $? = 5 ]'

# ---- run: its last words
t closing_nothing 0 'fashim run true'
t closing_off 0 'fashim run --mode off true'
t closing_folder 0 'mkdir folder; FASHIM_MIN_SPEEDUP=0 FASHIM_BUDGET=0 LD_LIBRARY_PATH=$BUILD/simgpu "$BUILD/fashim" run -o folder -- "$BUILD/apps/sim/demo" 6 2>&1 >/dev/null | sed "s/demo\.[0-9]*/demo.PID/g; s#/[^ ]*/folder#folder#; s#next: [^ ]*/fashim#next: fashim#"; ls folder | sed "s/[0-9][0-9]*/PID/"'
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
# A launcher, torchrun COUNT COMMAND…; rank 0 of what it starts so waits for what the others leave.
printf '#!/bin/sh\nn=$1; shift\nwhile [ $((n -= 1)) -ge 0 ]; do RANK=$n "$@" & done\nwait $!\n' >bin/torchrun; chmod +x bin/torchrun
# Rank 0 begins before the others end, and ends last.
cat >last.sh <<'END'
#!/bin/sh
if [ $RANK = 0 ]; then
	: >begun
	until [ $(grep -ls summary fashim.app.*.jsonl | wc -l) = 2 ]; do sleep 0.05; done
	rm -f begun
else
	until [ -e begun ]; do sleep 0.05; done
fi
exec ./leave_log.sh logs/replace.jsonl
END
chmod +x last.sh
t closing_launched 0 'fashim run torchrun 3 ./last.sh'
t closing_ranks 0 'torchrun 3 fashim run ./last.sh'
t closing_ranks_script 0 'torchrun 3 fashim run sh -c "./last.sh; :"'
t closing_ranks_batch 0 'export SLURM_PROCID=0; fashim run torchrun 3 ./last.sh; fashim run sh -c "RANK=5 ./leave_log.sh logs/gemms.jsonl"'
t closing_ranks_fail 127 'RANK=1 fashim run ./nowhere'
t closing_junk 0 'fashim run ./leave_log.sh logs/headless.jsonl'
t closing_others 0 'cp logs/replace.jsonl fashim.app.1.jsonl; fashim run true'
t closing_empty 0 'fashim run ./leave_log.sh logs/empty.jsonl'
t closing_uncounted 0 'fashim run ./leave_log.sh logs/killed.jsonl'
t closing_no_mode 0 'FASHIM=audi fashim run true'
t closing_device 0 'fashim run -o /dev/null ./leave_log.sh logs/replace.jsonl'
t closing_gone 0 'mkdir gone_place; fashim run -o gone_place/x.jsonl rmdir gone_place'
# Nobody can make a file in /proc.
t run_elsewhere 0 '
	cd /proc; fashim run -n ./app | sed "s/ .*OUT=/ /"; [ ! -e "$XDG_STATE_HOME" ] || exit
	fashim run "$OLDPWD/leave_log.sh" "$OLDPWD/logs/replace.jsonl" 2>&1 | sed "s/written: .*/written: why/"; rm "$XDG_STATE_HOME"/fashim/*.jsonl
	fashim run --mode=off true'
t run_nowhere 0 'cd /proc; XDG_STATE_HOME=/proc/none fashim run "$OLDPWD/leave_log.sh" "$OLDPWD/logs/replace.jsonl" 2>&1 | sed "s/written: [^;]*/written: why/" | grep fashim:'
t run_no_place 125 '
	mkfifo queue
	for log in - /dev/stdout /dev/stderr /dev/fd/1 /proc/self/fd/1 ./queue no_folder/x.jsonl no_folder/%p/x; do
		fashim run -o "$log" echo started >out; [ $? = 125 ] || exit 0
		fashim run -o "$log" echo started | cat; [ ${PIPESTATUS[0]} = 125 ] || exit 0
	done
	FASHIM_OUT=/no/folder/x fashim run echo started; code=$?
	[ -s out ] || [ -e - ] || [ -e no_folder ] || [ -e /dev/stdout.1 ] || exit $code'
mkdir preloaded
# The library alone makes none either, and says where the log is instead.
t out_no_folder 0 'cd preloaded; for out in no_folder/x.jsonl /no_folder/ no_folder/%h/x.jsonl; do
	FASHIM_OUT=$out FASHIM_RECORD=no_folder/x.trace XDG_STATE_HOME=$PWD/state LD_LIBRARY_PATH=$BUILD/simgpu LD_PRELOAD=$BUILD/sim/libfashim.so \
		"$BUILD/apps/sim/demo" 1 2>&1 >/dev/null | sed -E "s#[^ (]*/preloaded#.#g; s/demo\.[0-9]+/demo.PID/g; s#no_folder/[^/ ]+/x.jsonl#no_folder/HOST/x.jsonl#"
	[ ! -e no_folder ] && [ ! -e /no_folder ] && grep -c summary state/fashim/*; rm -r state; done'
t doctor_no_folder 0 'cd preloaded
	FASHIM_OUT=no_folder/x.jsonl XDG_STATE_HOME=/place LD_LIBRARY_PATH=$BUILD/simgpu "$BUILD/fashim" doctor | grep " log "
	FASHIM_OUT=no_folder/x.jsonl env -u HOME -u XDG_STATE_HOME LD_LIBRARY_PATH=$BUILD/simgpu "$BUILD/fashim" doctor | grep " log "'
holds run_folder_named 'mkdir -p named; fashim run -o named/%h/x.%p.jsonl true 2>err && fashim run -o named true 2>err && ! ls -A named | grep .'
holds closing_command_works 'fashim run ./leave_log.sh logs/replace.jsonl 2>err >/dev/null; eval "$(sed -n "s/^fashim: next: //p" err)"'

mkdir few_tools # a PATH without most of what one has
ln -s "$(command -v sed)" few_tools

# ---- report
t report_replace 0 'fashim report logs/replace.jsonl'
t report_ascii 0 'LC_ALL=C fashim report logs/replace.jsonl'
t report_color 0 'fashim report --color=always logs/replace.jsonl'
t report_compare 0 'fashim report logs/compare.jsonl'
t report_gemms 0 'fashim report logs/gemms.jsonl'
t report_not_seen 0 'grep -v decline logs/gemms.jsonl | sed "s/\"reasons\":{[^}]*}/\"reasons\":{}/" >unseen.jsonl; fashim report unseen.jsonl; sed "s/\"gemms\":20/\"gemms\":0/" unseen.jsonl >idle.jsonl; fashim report idle.jsonl | grep seen'
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
t report_parts 0 'fashim report --site 1 logs/streams.jsonl | grep -A1 "^  app"; fashim report -f json logs/streams.jsonl | grep -A5 parts_us; fashim report -f html logs/streams.jsonl | grep -o "class=.inside.*middle ops<\|class=.app part softmax.\|one call of the app</dt>.*"'
t report_simulated 0 'sed "1s/Example GPU/simgpu (CPU)/" logs/replace.jsonl >simulated.jsonl; fashim report --site 1 simulated.jsonl; fashim run ./leave_log.sh simulated.jsonl
	fashim report -f html simulated.jsonl | grep -o "class=.tile.*"; fashim report -f json simulated.jsonl | grep -E "_us|speedup"; fashim report simulated.jsonl logs/replace.jsonl | sed -n 3,8p'
# How much slower it was said to be is such a time, too.
t report_slower 0 'sed "1s/Example GPU/simgpu (CPU)/" logs/old.jsonl >simulated_old.jsonl; for log in logs/old.jsonl simulated_old.jsonl; do fashim report $log | grep -A4 "slower:"; fashim report -f csv --filter site=5 $log | tail -1 | cut -d, -f14-18; fashim report -f html $log | grep -c "0.50x"; fashim top $log | grep -c "^ *cost"; done; true'
t report_could 0 'fashim report -f html logs/compare.jsonl | grep -o "class=.tile.*"'
t report_shared_gpu 0 'sed "/\"site\":1,\"occurrence\":64,/{p;s/52\.0/5200.0/}" logs/replace.jsonl >shared_gpu.jsonl; fashim report shared_gpu.jsonl | grep "GPU time\|saved  \|^   1 "'
t report_copies 0 'sed "s/\"reasons\":{/\"copies\":{\"held\":1200,\"made\":4,\"unfit\":1},&/;2i{\"type\":\"copy\",\"by\":\"_Z13reduce_kernelPf\",\"bytes\":4096}" logs/replace.jsonl >copies.jsonl; fashim report copies.jsonl | grep "^ *copies"; fashim report -f json copies.jsonl | grep -A5 copies\"'
t report_replays 0 'sed "/\"summary\"/s/\"snapshots\":[0-9]*,\"saved_us\":[-0-9.]*/&,\"replays\":700/" logs/replace.jsonl >replays.jsonl; fashim report --site 1 replays.jsonl | grep "^ *calls"; fashim report -f json replays.jsonl | grep replays'
t report_forgotten 0 '{ sed "\$d" logs/replace.jsonl; echo "{\"type\":\"forgotten\",\"site\":4,\"state\":\"declined\",\"reason\":\"dropout\",\"seen\":7,\"replaced\":0,\"compared\":0,\"agreed\":0,\"passed\":7,\"materialised\":0,\"snapshots\":0,\"saved_us\":0}"; tail -1 logs/replace.jsonl; } >forgotten.jsonl; fashim report -f csv forgotten.jsonl | cut -d, -f2,13-14,16-19 | tail -2'
t report_learning 0 'sed "1s/\"options\":{/&\"FASHIM_LEARN\":\"3\",/;s/\"site\":2,\"state\":\"verified\",\"reason\":\"none\",\"seen\":1000,\"replaced\":996,\"compared\":2,\"passed\":2/\"site\":2,\"state\":\"learning\",\"reason\":\"learning\",\"seen\":5,\"replaced\":0,\"compared\":2,\"agreed\":2,\"passed\":3/" logs/replace.jsonl >learning.jsonl; fashim report learning.jsonl | grep -A2 "learning: "'
t report_pipe 0 'fashim report <(cat logs/gemms.jsonl) | sed 1d'
t report_killed 0 'fashim report killed_live.jsonl'
t report_killed_ending 0 'cp killed_live.jsonl ended.jsonl; "$BUILD/tests/cli/live" ended.jsonl.live ended; fashim report ended.jsonl | grep -E "started|shim "'
t report_rests 0 'SIMGPU_REST=8 FASHIM_MIN_SPEEDUP=0 FASHIM_OUT=rests.jsonl LD_LIBRARY_PATH=$BUILD/simgpu LD_PRELOAD=$BUILD/sim/libfashim.so "$BUILD/apps/sim/demo" 60 >/dev/null; "$BUILD/fashim" report rests.jsonl | sed -n "s/^ *stood aside [0-9]* times, .* together\(.*\): the GPU.*/stood aside/p"; "$BUILD/fashim" report -f json rests.jsonl | grep -c "\"times\": [1-9]"'
t report_rests_watching 0 'FASHIM=audit SIMGPU_REST=8 FASHIM_OUT=watching.jsonl LD_LIBRARY_PATH=$BUILD/simgpu LD_PRELOAD=$BUILD/sim/libfashim.so "$BUILD/apps/sim/demo" 60 >/dev/null; "$BUILD/fashim" report watching.jsonl | sed -n "s/^ *stood aside [0-9]* times, .* together\(.*\)\(: what was called.*\)/stood aside\2/p"'
# What the shim writes until it is killed tells how long that took, long after the last comparison.
holds report_killed_truly '
	export FASHIM_SAMPLE=0 FASHIM_MIN_SPEEDUP=0 FASHIM_BUDGET=0 FASHIM_OUT=truly.jsonl
	LD_LIBRARY_PATH=$BUILD/simgpu LD_PRELOAD=$BUILD/sim/libfashim.so "$BUILD/apps/sim/demo" 100000 >/dev/null & pid=$!
	calls() { "$BUILD/fashim" report -f json truly.jsonl 2>/dev/null | sed -n "s/^ *\"calls\": \([0-9]*\).*/\1/p" | head -1; }
	until_more() { for i in $(seq 1200); do [ "$(calls)" -gt "$1" ] 2>/dev/null && break; sleep 0.1; done; }
	until_more 6; "$BUILD/fashim" report truly.jsonl | grep -q "still running after" || exit
	before=$(calls); sleep 1; until_more "$before"; kill -KILL $pid; wait $pid 2>/dev/null
	compared=$(sed -n "s/.*\"at_us\":\([0-9]*\).*/\1/p" truly.jsonl | tail -1); wall=$("$BUILD/fashim" report -f json truly.jsonl | sed -n "s/^ *\"wall_us\": \([0-9]*\).*/\1/p" | head -1)
	"$BUILD/fashim" report truly.jsonl | grep "killed after more than" && [ "$wall" -gt $((compared + 1000000)) ] || { echo "compared $compared wall $wall"; exit 1; }'
t report_killed_later 0 'sed "/\"sample\"/s/}\$/,\"at_us\":1234567.8}/" killed_live.jsonl >later.jsonl; cp killed_live.jsonl.live later.jsonl.live; fashim report later.jsonl | grep -E "started|shim "; fashim report -f html later.jsonl | grep -o "killed after[^<]*"; fashim report -f json later.jsonl | grep wall_us'
t report_running 0 '
	sed "1s/\"pid\":[0-9]*/\"pid\":$$/; 1s/\"host\":\"[^\"]*\"/\"host\":\"$(uname -n)\"/" logs/killed.jsonl >running.jsonl; "$BUILD/tests/cli/live" running.jsonl.live begun
	fashim report running.jsonl | grep -oE "still running after (9[0-9]|[1-9][0-9]{2})" | sed "s/[0-9]*\$/9N/"'
t report_killed_older 0 'for of in older newer; do cp killed_live.jsonl $of.jsonl; "$BUILD/tests/cli/live" $of.jsonl.live $of; fashim report $of.jsonl | grep -E "shim |spent"; fashim report -f json $of.jsonl | grep -A8 costs_us | head -10; done'
t report_budget 0 'sed "s/\"state\":\"learning\",\"reason\":\"none\"/\"state\":\"learning\",\"reason\":\"budget\"/; s/\"reasons\":{/&\"budget\":7,/" logs/new.jsonl >budget.jsonl; fashim report budget.jsonl | grep -A4 " budget:"'
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
t report_no_log 2 'mkdir nothing; cd nothing; fashim report'
# Whatever its name is; other programs write *.jsonl, too.
t report_newest 0 '
	mkdir new; cd new; for log in gemms replace compare; do cp ../logs/$log.jsonl fashim.$log.1.jsonl; done; cp ../logs/other.jsonl ../logs/empty.jsonl .; mkdir folder.jsonl
	touch -d 2001-01-01 fashim.compare.1.jsonl; touch -d 2003-01-01 fashim.gemms.1.jsonl; touch -d 2002-01-01 fashim.replace.1.jsonl
	fashim report | head -1; cp fashim.replace.1.jsonl named.jsonl; fashim report | head -1; rm named.jsonl
	fashim report | head -1; mkdir -p "$XDG_STATE_HOME/fashim"; mv fashim.* "$XDG_STATE_HOME/fashim"; fashim report | head -1; rm -r "$XDG_STATE_HOME"'
t report_stdin 0 'fashim report - <logs/gemms.jsonl | head -3; cat logs/gemms.jsonl | fashim report -f csv - | wc -l'
t report_packed 1 '
	mkdir packed; gzip -c logs/replace.jsonl >packed/a.jsonl.gz; fashim report packed/a.jsonl.gz | head -2; fashim report packed | head -1; fashim diff packed/a.jsonl.gz logs/replace.jsonl | head -1
	size=$(stat -c %s packed/a.jsonl.gz); for n in 10 $((size / 2)) $((size - 4)); do head -c $n packed/a.jsonl.gz >short.jsonl.gz; fashim report short.jsonl.gz | sed -n 2p; [ ${PIPESTATUS[0]} = 1 ] || exit 0; done
	cp logs/replace.jsonl plain.jsonl.gz; cp packed/a.jsonl.gz packed.jsonl; for log in plain.jsonl.gz packed.jsonl; do fashim report $log | sed -n 2p; done; fashim report - <packed.jsonl | sed -n 2p; exit 1'
t report_by_ending 0 '
	for ending in html json csv md txt none; do fashim report -o by.$ending logs/replace.jsonl; head -1 by.$ending | cut -c1-40; done
	fashim report -f csv -o by.json logs/replace.jsonl; head -c 10 by.json; mkdir dir.csv; fashim report -o dir.csv/page logs/replace.jsonl; head -1 dir.csv/page'
t report_bad_format 2 'fashim report --format=xml logs/replace.jsonl'
t report_bad_site 2 'fashim report --site=-1 logs/replace.jsonl'
t report_bad_color 2 'fashim report --color=sometimes logs/replace.jsonl'
t report_full_disk 1 'fashim report logs/replace.jsonl >/dev/full'
holds report_no_color_in_pipe '! fashim report logs/replace.jsonl | grep -q "$(printf "\033")"'
holds report_random_bytes '
	tried() {
		LC_ALL=C awk -v seed="$1" "BEGIN { srand(seed); for (i = 0; i < 4000000; i++) printf \"%c\", int(rand() * 256) }" >spoilt
		fashim report spoilt 2>out; [ $? = 1 ] && [ "$(wc -l <out)" = 1 ] || kept "$1" || return 1
		{ head -2 logs/replace.jsonl; cat spoilt; } >mixed; fashim report mixed >out 2>&1 || { mv mixed spoilt; kept "$1"; }
	}
	random_rounds 5 tried'
holds report_every_cut '
	size=$(stat -c %s logs/replace.jsonl)
	for ((i = 1; i < size; i += 97)); do
		head -c $i logs/replace.jsonl >part; fashim report part >/dev/null 2>&1; [ $? -le 1 ] || exit 1
	done'
holds report_two_million_samples '
	line="$(sed -n 4p logs/replace.jsonl)"
	many() { head -2 logs/replace.jsonl; yes "$line" | head -2000000; }
	grep -q __asan "$(command -v fashim)" || ulimit -v 200000 -t 20 # KB, and seconds of processor time: it takes one
	fashim report <(many) >out && grep -q "900.0 ± 0.0" out'

# Logs that are small and tell of much: what is kept is in proportion to what was read.
frugal() { grep -q __asan "$(command -v fashim)" || ulimit -v 100000 -t 20; "$@"; } # KB, seconds
export -f frugal
t report_far_site 0 'for i in $(seq 150); do head -1 logs/replace.jsonl; echo "{\"type\":\"site\",\"site\":4294967295}"; done >far.jsonl; frugal fashim report far.jsonl | tail -1 | cut -c1-20'
t report_many_sites 1 '
	{ head -1 logs/replace.jsonl; seq 500000 | sed "s/.*/{\"type\":\"state\",\"site\":&}/"; } >many_sites.jsonl
	frugal fashim report -f csv many_sites.jsonl | wc -l; exit ${PIPESTATUS[0]}'
t report_many_reasons 1 '
	for i in $(seq 500); do head -1 logs/replace.jsonl | sed "s/,.options.:.*/}/"; echo "{\"type\":\"summary\",\"reasons\":{$(seq -s, 1000 1999 | sed "s/[0-9]*/\"&\":1/g")}}"; done >many_reasons.jsonl
	frugal fashim report many_reasons.jsonl | grep -c "  1 *1[0-9]*:"; exit ${PIPESTATUS[0]}'
t report_bushy 1 '
	{ head -1 logs/replace.jsonl; for i in $(seq 40); do printf "{\"type\":\"site\",\"site\":$i,\"chain\":["; yes "{}," | tr -d "\n" | head -c 900000; echo "{}]}"; done; } >bushy.jsonl
	frugal fashim report --site 1 bushy.jsonl | grep "^Site"; { head -1 logs/replace.jsonl; yes "{\"x\":" | tr -d "\n" | head -c 3000000; } >long.jsonl; frugal fashim report long.jsonl | tail -1; exit ${PIPESTATUS[0]}'
t report_absurd_counts 0 'sed "s/\"nonfinite\":0/\"nonfinite\":1e308/; s/\"reasons\":{/&\"absurd\":1e308,/; s/\"worst_index\":[0-9]*/\"worst_index\":-1e308/" logs/replace.jsonl >absurd.jsonl; fashim report -f html absurd.jsonl | tail -1; fashim report --site 1 absurd.jsonl | grep "^  drift.*call"; fashim report absurd.jsonl | grep -E "absurd:|NaN"'

# ---- report: its forms
t report_site_of_log 0 'fashim report --site 2:1 logs/replace.jsonl logs/compare.jsonl'
t report_site_of_no_log 1 'fashim report --site 3:1 logs/replace.jsonl logs/compare.jsonl'
t report_bad_site_of_log 2 'fashim report --site 0:1 logs/replace.jsonl'
t report_header 0 'fashim report --header logs/replace.jsonl'
# What lies between header and summary is not even looked at.
t report_header_alone 0 '
	{ sed "\$d" logs/replace.jsonl; for i in $(seq 300000); do echo "not read at all: $i"; done; tail -1 logs/replace.jsonl; } >between.jsonl; ulimit -t 5
	fashim report --header between.jsonl | sed 1d >a; fashim report --header logs/replace.jsonl | sed 1d | cmp - a'
# Intervals of 10 000 sites, and a page that a browser still opens.
holds report_ten_thousand_sites '
	line="$(sed -n 4p logs/replace.jsonl)" site="$(sed -n 2p logs/replace.jsonl)"; site=${site#*\"site\":1} line=${line#*\"site\":1}
	{ head -1 logs/replace.jsonl; for i in $(seq 10000); do echo "{\"type\":\"site\",\"site\":$i$site"; for k in 1 2 3 4 5 6; do echo "{\"type\":\"sample\",\"site\":$i$line"; done; done; } >ten_thousand.jsonl
	grep -q __asan "$(command -v fashim)" || ulimit -t 8 # seconds of processor time; it takes two
	fashim report -f html -o ten_thousand.html ten_thousand.jsonl && [ $(stat -c %s ten_thousand.html) -lt 8000000 ] && grep -c "<tr><td" ten_thousand.html | grep -qx 2000 &&
	    [ "$(grep -c "class=.site. id=" ten_thousand.html)" = 200 ] && grep -q "Rows of the first 2000 of 10000 sites" ten_thousand.html && fashim report -f csv ten_thousand.jsonl | wc -l | grep -qx 10001'
# C frames of the program itself, where it is at hand and is the one that ran: another machine's, a younger file, nobody to ask.
t report_symbols 0 '
	command -v addr2line >/dev/null && command -v nm >/dev/null || { cat '"$here"'/expected/report_symbols.out; exit 0; }
	main=$(nm bin/ended | sed -n "s/^0*\([0-9a-f]*\) T main$/0x\1/p")
	sed "1s#\"exe\":\"[^\"]*\"#\"exe\":\"$PWD/bin/ended\"#; 1s/gpu-box/$(uname -n)/; 1s/2026-01-01T00:00:00Z/$(date -u -d tomorrow +%FT%TZ)/; s/\"app+0x10\",\"app+0x20\"/\"ended+$(printf 0x%x $((main + 1)))\",\"ended+0xffffff\",\"libc.so.6+0x10\"/" logs/replace.jsonl >symbols.jsonl
	stack() { fashim report -s 3 "$@" | sed -n "/^  stack/,/^  calls/p" | sed "\$d; s/ at [a-z.]*:[0-9]*//; s/ended+0x[0-9a-f]*/ended+0xN/"; }
	stack symbols.jsonl; sed "1s/$(uname -n)/elsewhere/" symbols.jsonl >elsewhere.jsonl; stack elsewhere.jsonl; sed "1s/\"start\":\"[^\"]*\"/\"start\":\"2001-01-01T00:00:00Z\"/" symbols.jsonl >younger.jsonl; stack younger.jsonl
	fashim=$(command -v fashim); PATH=few_tools "$fashim" report -s 3 symbols.jsonl | grep -c "main"; true'
# What the page shows of a stack before one clicks: a deep one's innermost frame.
t report_deep_stack 0 'sed "s/\"model.py:12 forward\",/&\"a\",\"b\",\"c\",\"d\",\"e\",/" logs/replace.jsonl >deep.jsonl; for log in logs/replace.jsonl deep.jsonl; do fashim report -f html $log | grep -o "<details[^/]*Python <code>[^<]*"; done'
t report_csv 0 'fashim report --format=csv logs/replace.jsonl logs/escapes.jsonl | tr -d "\r"'
t report_csv_empty 0 'fashim report --format=csv logs/gemms.jsonl | wc -l'
t report_md 0 'fashim report --format=md logs/replace.jsonl logs/compare.jsonl'
t report_md_escapes 0 'fashim report --format=markdown logs/escapes.jsonl'
t report_output 0 'fashim report -f md -o written.md logs/gemms.jsonl && head -1 written.md'
t report_output_bad 1 'fashim report -o none/none/x logs/gemms.jsonl'
t report_onto_log 0 '
	for form in table html csv; do
		cp logs/old.jsonl mine.jsonl; fashim report -f $form -o ./mine.jsonl logs/new.jsonl mine.jsonl; [ $? = 2 ] || exit; cmp mine.jsonl logs/old.jsonl || exit
	done
	cp mine.jsonl none/; fashim report -o none/mine.jsonl none; [ $? = 2 ] || exit; cmp none/mine.jsonl mine.jsonl; rm none/*
	cp killed_live.jsonl.live kept.live; fashim report -o killed_live.jsonl.live killed_live.jsonl; cmp kept.live killed_live.jsonl.live'
t report_output_stdout 0 'fashim report -o - logs/gemms.jsonl | cmp - <(fashim report logs/gemms.jsonl); [ ! -e - ]'
t report_sort 0 'fashim report --sort=app_us --format=csv logs/replace.jsonl | cut -d, -f2'
t report_sort_up 0 'fashim report --sort=-max_rel --format=csv logs/replace.jsonl | cut -d, -f2'
t report_sort_text 0 'fashim report --sort=dtype --format=csv logs/replace.jsonl | cut -d, -f2,10'
t report_sort_bad 2 'for key in cals foo speed; do fashim report --sort=$key logs/replace.jsonl; [ $? = 2 ] || exit 0; done; exit 2'
t report_filter 0 'fashim report --filter "calls>=1000" --filter mask~BIAS logs/replace.jsonl'
t report_filter_json 0 'fashim report --filter verdict=declined -f json logs/replace.jsonl | grep -E "\"(site|reason|count|sites)\":"'
t report_filter_none 1 'fashim report --filter dtype=f64 logs/replace.jsonl'
t report_filter_not 0 'for f in "dtype!=f16" "speedup!=2" "speedup<3" "speedup<=3" "calls>1000" "reason=none"; do
	echo "$f"; fashim report --filter "$f" -f csv logs/replace.jsonl | cut -d, -f2 | tail -n +2; done'
t report_filter_bad 2 'for f in calls "calls>" "calls>x" "calls~1" "dtype>f16" "=1" "dtpye=f16" "$(printf "%0300d" 0)=1"; do
	fashim report --filter "$f" logs/replace.jsonl; done'
t report_unknown_option 2 'fashim report --sote logs/replace.jsonl'

# ---- report: a bundle
sed '1s/"argv":\[.*"host":"gpu-box"/"argv":["python3","serve.py","--token=hunter2"],"host":"secret-host"/; 1s#"exe":"/usr#"exe":"/home/alice#
	1s#"FASHIM_SAMPLE"#"FASHIM_OUT":"/home/alice/x.jsonl","FASHIM_RECORD":"kept.%p.trace","FASHIM_SAMPLE"#; s#\["model.py:12#["/home/alice/my work/model.py:12#
	s#"serve.py:40#"/opt/alice/site-packages/pack/serve.py:40#; s#"libtorch_cpu.so#"/home/alice/lib/libtorch_cpu.so#; s#"stream 0x7f00"#"cannot read \x27/home/alice/z\x27: no"#
	2i{"type":"tune","cache":"/home/alice/tune.txt","new":["/home/alice/t"]}' logs/replace.jsonl >private.jsonl
echo "/home/alice cut short" >>private.jsonl
bundled() { tar -xzOf "$@"; }
export -f bundled
t report_bundle 0 'fashim report --bundle private.jsonl 2>/dev/null | sed "1s/[0-9]* KiB/N KiB/"; tar -tzf fashim-bundle.tar.gz && bundled fashim-bundle.tar.gz fashim-bundle/versions.txt && bundled fashim-bundle.tar.gz fashim-bundle/log.jsonl | head -3
	bundled fashim-bundle.tar.gz | grep -E "alice|hunter2|secret-host|GPU-0" && exit 1; bundled fashim-bundle.tar.gz | grep -c "pack/serve.py\|cannot read .z.: no"'
t report_bundle_private 0 'fashim report --bundle --private -o p.tgz private.jsonl 2>/dev/null | tail -1; for word in alice hunter2 secret-host GPU-0; do bundled p.tgz fashim-bundle/log.jsonl | grep -o "$word" | head -1; done; bundled p.tgz fashim-bundle/report.txt | head -3'
t report_bundle_trace 0 '
	gzip -dc "$TRACES/naive_512.trace.gz" >kept.4242.trace; fashim report --bundle -o t.tgz private.jsonl 2>/dev/null | sed 1d; bundled t.tgz fashim-bundle/trace.txt | cmp - kept.4242.trace; rm kept.4242.trace
	fashim report --bundle -o t.tgz --trace "$TRACES/naive_512.trace.gz" logs/replace.jsonl killed_live.jsonl | sed 1d; tar -tzf t.tgz; tar -xzf t.tgz; cd fashim-bundle; fashim report . 2>/dev/null | cmp - report.txt; fashim replay trace.txt | tail -1; rm -r ../fashim-bundle'
t report_bundle_bad 1 '
	fashim report --bundle logs/replace.jsonl; rm fashim-bundle.tar.gz; fashim report --bundle -o none/no/x.tgz logs/replace.jsonl; fashim report --bundle -o /dev/full logs/replace.jsonl
	fashim report --bundle --trace nowhere logs/replace.jsonl; fashim report --bundle - <logs/replace.jsonl; timeout 60 fashim report --bundle <(cat logs/replace.jsonl); fashim report --bundle logs/junk.bin; ls fashim-bundle* 2>/dev/null; TMPDIR=/no/where fashim report --bundle logs/replace.jsonl 2>&1 | sed "s/-......:/-X:/"; exit ${PIPESTATUS[0]}'
t report_bundle_usage 2 'for o in --trace=x --private "--bundle -f html" "--bundle --site 1" "--bundle -o private.jsonl private.jsonl"; do fashim report $o logs/replace.jsonl 2>err; [ $? = 2 ] || exit 0; head -1 err; done; exit 2'

# ---- report: ranks of one job
for rank in 0 1 2 3; do
	sed "1s/\"rank\":null/\"rank\":$rank/; 1s/4242/424$rank/" logs/replace.jsonl >"rank$rank.jsonl"
done
sed '/"site":1,/d' rank3.jsonl | sed 's/"python":\["decode.py:7/"python":["decode.py:8/' >other3.jsonl
t report_ranks 0 'fashim report rank0.jsonl rank1.jsonl rank2.jsonl rank3.jsonl'
t report_ranks_site 0 'fashim report --site 1 rank0.jsonl rank1.jsonl | tail -12'
t report_ranks_differ 0 'fashim report rank0.jsonl rank1.jsonl other3.jsonl'
t report_ranks_twice 0 'fashim report rank0.jsonl rank1.jsonl rank1.jsonl rank0.jsonl | grep -E "^(SITE| *[0-9]+:[0-9])"'
for rank in 0 1 2 3 4 5 6 7; do sed "1s/\"rank\":[0-9]*/\"rank\":$rank/" rank0.jsonl >"eight$rank.jsonl"; done
sed -i 's/"replaced":9500,"compared":98,"passed":2,/"replaced":1200,"compared":98,"passed":8302,/; s/"saved_us":484500.0/"saved_us":61200.0/' eight5.jsonl
t report_ranks_eight 0 'fashim report eight?.jsonl | grep -E "^  (calls|ranks|saved)|^SITE|^[0-9]"; fashim report -f md eight?.jsonl | grep ranks; ! fashim report --site 1 eight?.jsonl | grep "^  ranks"'
t report_ranks_json 0 'fashim report -f json rank0.jsonl rank1.jsonl | grep -E "\"(site|ranks|calls|saved_us)\":"'

# ---- progress
# Of a log that comes slowly: on a terminal after two seconds, a line that is gone at the end; elsewhere, and with --quiet, nothing.
t progress 0 '
	slow() { head -2 logs/replace.jsonl; sleep 5; tail -n +3 logs/replace.jsonl; }
	for k in 1 2 3; do mkfifo slow.$k; slow >slow.$k & done
	script -qec "fashim report --header slow.1 2>&1 >/dev/null" /dev/null </dev/null >terminal & script -qec "fashim report --header -q slow.2 2>&1 >/dev/null" /dev/null </dev/null >quietly & fashim report --header slow.3 2>&1 >/dev/null; wait
	tr "\r\033" "\nE" <terminal | sed "s/[0-9][0-9]*/N/" | uniq; cat quietly'
holds progress_options 'for command in report diff gate export replay bench tune; do fashim help $command | grep -q "^ *-q, --quiet " || { echo "$command"; exit 1; }; done'

# ---- report: terminals
# tty COLUMNS COMMAND: what the command prints on a terminal that wide.
tty()
{
	script -qec "stty cols $1 rows 30; $2" /dev/null </dev/null | tr -d "\r"
}
export -f tty
t report_narrow 0 'COLUMNS=80 fashim report logs/replace.jsonl'
t report_very_narrow 0 'COLUMNS=34 fashim report --site 3 logs/replace.jsonl'
t report_absurd_width 0 'for c in 0 -5 x 999999999999; do COLUMNS=$c fashim report logs/gemms.jsonl | cmp - <(fashim report logs/gemms.jsonl) || echo "$c"; done'
t report_terminal_width 0 'unset COLUMNS; tty 60 "PAGER=cat fashim report --color=never logs/gemms.jsonl"'
holds report_narrow_fits '
	for width in 40 57 73 100 133; do
		COLUMNS=$width fashim report --site 1 logs/replace.jsonl | awk -v width=$width "{ gsub(/[^ -~]+/, \"x\") } length() > width { print width, length(), \$0; bad = 1 } END { exit bad }" || exit 1
	done'
holds report_pager 'tty 80 "FASHIM_PAGER=\"sed s/^/paged:/\" PAGER=false fashim report logs/gemms.jsonl" | grep -q "^paged:.*gemms.jsonl"'
holds report_pager_quits 'tty 80 "PAGER=\"head -1\" fashim report --site 1 logs/replace.jsonl; echo left \$?" | tail -1 | grep -qx "left 0"'
holds report_no_pager '! tty 80 "PAGER=\"sed s/^/paged:/\" fashim report --no-pager logs/gemms.jsonl" | grep -q paged:'
holds report_colour_rules '
	escape=$(printf "\033") run="PAGER=cat fashim report logs/replace.jsonl"
	colour() { grep -q "$escape"; }
	tty 200 "$run" | colour || exit 1
	tty 200 "NO_COLOR= $run" | colour || exit 2
	tty 200 "NO_COLOR=1 $run" | colour && exit 3
	tty 200 "TERM=dumb $run" | colour && exit 4
	tty 200 "CLICOLOR=0 $run" | colour && exit 5
	tty 200 "NO_COLOR=1 $run --color=always" | colour || exit 6
	CLICOLOR_FORCE=1 fashim report logs/replace.jsonl | colour || exit 7
	CLICOLOR_FORCE=0 fashim report logs/replace.jsonl | colour && exit 8
	NO_COLOR=1 CLICOLOR_FORCE=1 fashim report logs/replace.jsonl | colour && exit 9
	tty 200 "$run --color=never" | colour && exit 10
	exit 0'
holds report_closed_pipe '
	fashim report --site 1 logs/replace.jsonl 2>err | head -1 >out; [ "${PIPESTATUS[0]}" -le 141 ] && [ ! -s err ] || exit 1
	{ trap "" PIPE; fashim report logs/replace.jsonl 2>err; echo $? >code; } | true; [ "$(cat code)" = 0 ] && [ ! -s err ]'

# ---- top
t help_top 0 'fashim help top'
# Of a process that began 90 seconds ago, or shortly after that.
running() { sed "1s/\"pid\":[0-9]*/\"pid\":$$/; 1s/\"host\":\"[^\"]*\"/\"host\":\"$(uname -n)\"/" logs/killed.jsonl >"$1"; "$BUILD/tests/cli/live" "$1.live" begun; }
looked() { sed -E "s/pid $$/pid N/; s/after (9[0-9]|[1-9][0-9]{2})(\.[0-9]+)? s/after 9N s/; s/[0-9]\.[0-9]+\/s/R\/s/g; s/[0-9.]+ µs in each/R µs in each/; s/0\.00[0-9]+ %/R %/; s/^[0-9:]{8} /CLOCK /; s/ +R/ R/"; }
export -f running looked
t top 0 'running top.jsonl; fashim top --once top.jsonl | looked'
t top_here 0 'mkdir top_here; cd top_here; cp -r ../logs .; running fashim.one.1.jsonl; cp logs/killed.jsonl fashim.dead.2.jsonl; "$BUILD/tests/cli/live" fashim.dead.2.jsonl.live begun; fashim top | sed -n 4p
	cp fashim.one.1.jsonl fashim.two.1.jsonl; cp fashim.one.1.jsonl.live fashim.two.1.jsonl.live; touch -d 2001-01-01 *.one.*; fashim top | sed -n 4p; fashim top fashim.one.1.jsonl.live | sed -n 4p'
# The program keeps its counters open, as the shim does.
t top_process 0 'running process.jsonl; exec 120<process.jsonl.live; fashim top $$ | sed -n "4,5p" | looked'
t top_nobody 1 'mkdir nobody; cd nobody; fashim top; fashim top 4194305; sleep 60 & fashim top $! 2>&1 | sed "s/$!/N/g"; kill $!; fashim top no_such.jsonl; exit 1'
t top_ended 0 'fashim top logs/replace.jsonl | head -2; fashim top -i 0.1 killed_live.jsonl | looked; fashim top -i 0.1 logs/replace.jsonl | looked'
t top_usage 2 'for o in "a b" "-i 0" "-i x" "-i 1s"; do fashim top $o 2>err; [ $? = 2 ] || exit 0; head -1 err; done; exit 2'
t top_full_disk 1 'fashim top logs/replace.jsonl >/dev/full'
holds top_lines '
	running lines.jsonl; fashim top -i 0.2 lines.jsonl >out & for i in $(seq 600); do [ $(wc -l <out) -ge 3 ] && break; sleep 0.1; done; kill $!
	[ $(wc -l <out) -ge 3 ] && ! grep -v "calls .*, replaced 70 %, saved 7 ms" out || { cat out; exit 1; }'
# On a terminal the text changes in its place; at the end what stood there is back, with the last look below it.
holds top_terminal '
	running screen.jsonl; escape=$(printf "\033"); rm -f out; homes() { grep -o "$escape\[H" out | wc -l; }
	script -qefc "stty cols 80 rows 30; fashim top -i 0.1 screen.jsonl; echo left \$?" out </dev/null >/dev/null &
	for i in $(seq 600); do [ "$(homes 2>/dev/null)" -ge 3 ] && break; sleep 0.1; done; sed -i 1s/$$/4194305/ screen.jsonl; wait
	tr -d "\r" <out | sed "1d;\$d" >shown
	[ "$(grep -o "$escape\[?1049[hl]" shown | tr -d "$escape\n")" = "[?1049h[?1049l" ] && [ "$(homes)" -ge 3 ] || { cat -v out; exit 1; }
	sed "1,/1049l/d" shown >after; grep -q "killed" after && grep -qx "left 0" after && ! grep -q "$escape\[H" after || { cat -v out; exit 1; }
	sed "/1049l/,\$d" shown | sed "s/$escape\[[?0-9]*[a-zA-Z]//g" | awk "{ gsub(/[^ -~]+/, \"x\") } length() > 80 { print; bad = 1 } END { exit bad }"'
holds top_leaves '
	running keys.jsonl; rm -f out; waits() { for i in $(seq 300); do grep -qs "$1" out && break; sleep 0.1; done; }
	{ waits 1049h; printf q; waits "left 0"; } | timeout 90 script -qefc "fashim top keys.jsonl; echo left \$?" out >/dev/null; grep -q "left 0" out || { cat -v out; exit 1; }
	tty 80 "timeout --foreground -s INT 0.5 fashim top keys.jsonl; stty -a" | grep -q " icanon"'

# ---- diff
t help_diff 0 'fashim help diff'
t diff 0 'fashim diff logs/old.jsonl logs/new.jsonl'
t diff_ascii 0 'LC_ALL=C fashim diff logs/old.jsonl logs/new.jsonl | sed -n 8,13p'
t diff_color 0 'fashim diff --color=always logs/old.jsonl logs/new.jsonl | tail -10'
t diff_changed 0 'fashim diff --changed logs/old.jsonl logs/new.jsonl | tail -8'
t diff_json 0 'fashim diff --format=json logs/old.jsonl logs/new.jsonl'
t diff_markdown 0 'fashim diff --format=markdown --changed logs/old.jsonl logs/new.jsonl'
t diff_same 0 'fashim diff logs/old.jsonl logs/old.jsonl'
t diff_none_changed 0 'fashim diff --changed logs/old.jsonl logs/old.jsonl | tail -2'
t diff_gpus 0 'sed "1s/Example GPU/Other GPU/; 1s/serve.py/train.py/" logs/new.jsonl >other_gpu.jsonl; fashim diff logs/old.jsonl other_gpu.jsonl | sed -n 8,13p'
t diff_simulated 0 'sed "1s/Example GPU/simgpu (CPU)/" logs/new.jsonl >simulated_new.jsonl; fashim diff simulated_new.jsonl logs/new.jsonl | grep note'
t diff_modes 0 'grep -v "\"sample\"" logs/old.jsonl | sed "1s/\"mode\":\"replace\"/\"mode\":\"audit\"/; s/\"replaced\":[0-9]*/\"replaced\":0/g" >audit.jsonl; fashim diff audit.jsonl logs/new.jsonl'
t diff_none_common 0 'sed "s/\"D\":64/\"D\":80/" logs/old.jsonl >d80.jsonl; fashim diff d80.jsonl logs/new.jsonl | sed -n "/sites/,\$p"'
t diff_csv 0 'fashim diff -f csv logs/old.jsonl logs/new.jsonl | tr -d "\r"; sed "s/\"D\":64/\"D\":80/" logs/old.jsonl >other_d.jsonl; fashim diff -f csv other_d.jsonl logs/new.jsonl | tr -d "\r" | cut -d, -f1-3,17-19; fashim diff -f csv --changed logs/old.jsonl logs/old.jsonl | wc -l'
t diff_no_sites 0 'fashim diff logs/gemms.jsonl logs/gemms.jsonl; fashim diff logs/gemms.jsonl logs/streams.jsonl | tail -6'
t diff_ranks 0 '
	mkdir ranks; for rank in 0 1; do sed "1s/\"rank\":null/\"rank\":$rank/" logs/old.jsonl >ranks/$rank.jsonl; done
	fashim diff ranks logs/old.jsonl | grep -E "ranks|replaced|^1 "'
t diff_killed 0 'fashim diff logs/killed.jsonl killed_live.jsonl | grep -E "replaced  "'
t diff_escapes 0 'fashim diff logs/escapes.jsonl logs/old.jsonl | tail -12'
t diff_missing 1 'fashim diff logs/old.jsonl no_such.jsonl'
t diff_empty 1 'fashim diff logs/empty.jsonl logs/old.jsonl'
t diff_one 2 'fashim diff logs/old.jsonl'
t diff_three 2 'fashim diff a b c'
t diff_none 2 'fashim diff'
t diff_bad_format 2 'fashim diff -f xml a b'
t diff_full_disk 1 'fashim diff logs/old.jsonl logs/new.jsonl >/dev/full'
t diff_gone 0 '(trap "" PIPE; while echo; do sleep 0.05; done 2>/dev/null; fashim diff logs/old.jsonl logs/new.jsonl; echo $? >&2) | true'
holds diff_mirrored '
	ratio() { fashim diff -f json "$1" "$2" | grep -A4 "\"total\"" | tr -d "\n" | sed "s/.*ratio\": \([0-9.]*\).*/\1/"; }
	awk -v a=$(ratio logs/old.jsonl logs/new.jsonl) -v b=$(ratio logs/new.jsonl logs/old.jsonl) "BEGIN { exit !(a * b > 0.999 && a * b < 1.001) }"'

# ---- gate
t help_gate 0 'fashim help gate'
t gate 1 'fashim gate logs/old.jsonl'
t gate_pass 0 'fashim gate --max-ratio=0.98 --max-drift 2e-3 --min-replaced=95% logs/old.jsonl'
t gate_drift 1 'fashim gate --max-drift=1e-3 logs/old.jsonl'
t gate_nonfinite 1 'fashim gate --max-drift=1 logs/compare.jsonl'
t gate_replaced 1 'fashim gate --min-replaced 0.999 logs/old.jsonl; fashim gate -m 0.5 logs/compare.jsonl'
t gate_baseline 1 'fashim gate --baseline=logs/old.jsonl logs/new.jsonl'
t gate_baseline_kept 0 'fashim gate --baseline=logs/old.jsonl logs/old.jsonl'
t gate_baseline_loose 1 'fashim gate --baseline=logs/old.jsonl --max-slowdown=1.3 --max-drift-growth=4 logs/new.jsonl | tail -1; exit ${PIPESTATUS[0]}'
t gate_baseline_gpu 1 'fashim gate --baseline=logs/old.jsonl other_gpu.jsonl | grep slowdown; exit ${PIPESTATUS[0]}'
t gate_baseline_none 1 'fashim gate --baseline=d80.jsonl logs/new.jsonl'
t gate_baseline_audit 1 'fashim gate --baseline=logs/new.jsonl audit.jsonl | tail -5; exit ${PIPESTATUS[0]}'
t gate_color 1 'fashim gate --color=always logs/old.jsonl | tail -9; exit ${PIPESTATUS[0]}'
t gate_json 1 'fashim gate --format=json logs/old.jsonl'
t gate_json_baseline 1 'fashim gate --format=json --baseline d80.jsonl logs/new.jsonl'
t gate_csv 1 'fashim gate -f csv --baseline=logs/old.jsonl logs/new.jsonl | tr -d "\r"; exit ${PIPESTATUS[0]}'
t gate_markdown 1 'fashim gate -f md --baseline=logs/old.jsonl logs/new.jsonl'
t gate_junit 1 'fashim gate --format=junit --max-drift=1e-3 --max-ratio=0.95 logs/old.jsonl'
t gate_junit_escapes 1 'cp logs/escapes.jsonl "a<b>&\"c.jsonl"; fashim gate --format=junit "a<b>&\"c.jsonl"'
t gate_ranks 0 'fashim gate --max-ratio=0.98 ranks | grep -E "ranks|^pass"'
t gate_few 1 'fashim gate logs/replace.jsonl'
t gate_simulated 1 'fashim gate simulated_new.jsonl'
t gate_no_sites 1 'fashim gate --max-ratio=1 --max-drift=1 --min-replaced=0 logs/gemms.jsonl'
t gate_killed 0 'fashim gate --min-replaced=0 logs/killed.jsonl; [ $? = 1 ] && fashim gate --min-replaced=0 killed_live.jsonl'
t gate_audit 1 'fashim gate audit.jsonl'
t gate_missing 2 'fashim gate no_such.jsonl'
t gate_empty 2 'fashim gate logs/empty.jsonl'
t gate_one_bad 2 'fashim gate logs/old.jsonl logs/junk.bin'
t gate_bad_baseline 2 'fashim gate --baseline=no_such.jsonl logs/old.jsonl'
t gate_no_baseline 2 'fashim gate --max-slowdown=1.1 logs/old.jsonl'
t gate_no_log 2 'fashim gate'
t gate_bad_format 2 'fashim gate -f xml logs/old.jsonl'
t gate_bad_limits 0 '
	for limit in max-ratio=nan max-ratio=-1 max-ratio=0 max-ratio=inf max-ratio=0x1p0 max-ratio= max-ratio=1,5 max-ratio=95% \
	    max-drift=-1e-3 max-drift=1e999 min-replaced=2 min-replaced=-1 min-replaced=101% min-replaced=half max-slowdown=0.9; do
		fashim gate --$limit logs/old.jsonl 2>err; code=$?; head -1 err; [ $code = 2 ] || echo "$limit: $code"
	done'
t gate_full_disk 2 'fashim gate --max-ratio=0.98 logs/old.jsonl >/dev/full'
holds gate_repeats 'fashim gate logs/old.jsonl >a; fashim gate logs/old.jsonl >b; cmp a b'
holds gate_verdicts "'$build/tests/cli/test_gate'"

# ---- export
export PATH="$PATH:$build/tests/cli"
t help_export 0 'fashim help export'
t export_perfetto 0 'fashim export logs/streams.jsonl'
t export_untimed 0 'fashim export --format=chrome logs/replace.jsonl | head -16; fashim export logs/old.jsonl >trace; check_trace trace'
# Where the stand-in was busy is told, how much faster it was is not.
t export_simulated 0 'sed "1s/Example GPU/simgpu (CPU)/" logs/streams.jsonl >stand_in.jsonl; for log in logs/streams.jsonl stand_in.jsonl; do fashim export $log | grep -c "\"cat\":\"fused\""; fashim export $log | grep -c speedup; done; true'
t export_two_runs 0 'fashim export two_runs.jsonl logs/old.jsonl | grep process_name'
t export_escapes 0 'fashim export logs/escapes.jsonl | head -12; fashim export -f folded logs/escapes.jsonl | head -3'
t export_folded 0 'fashim export -f folded logs/old.jsonl'
t export_folded_calls 0 'fashim export -f folded -w calls logs/old.jsonl'
t export_folded_killed 0 'fashim export -f folded logs/killed.jsonl'
t export_sqlite 0 '
	fashim export -f sqlite -o log.db logs/old.jsonl logs/streams.jsonl
	query log.db "PRAGMA user_version; SELECT run, path, pid, rank, mode, cublas, \"end\", gemms FROM run; SELECT * FROM option LIMIT 2;
		SELECT run, site, Sk, dtype, mask, state, reason, seen, replaced FROM site; SELECT * FROM frame WHERE site = 2"
	query log.db "SELECT * FROM sample WHERE run = 2; SELECT * FROM event; SELECT * FROM reason; SELECT run, site, samples FROM site_speed"'
# The times in one place are those in the other.
holds export_sqlite_speed '
	names=site,app_us,app_sd,fused_us,fused_sd,speedup,speedup_low,speedup_high,max_rel
	rounded() { awk "{ for (i = 1; i <= NF; i++) printf \"%s \", \$i ~ /[0-9]/ ? sprintf(\"%.6g\", \$i) : \"-\"; print \"\" }" | sort -n; }
	awk "/\"sample\"/ && !seen[substr(\$0, 1, 26)]++ { sub(/\"app_us\":[0-9.]+/, \"\\\"app_us\\\":9000\") } 1" logs/new.jsonl >warm.jsonl
	for log in logs/old.jsonl logs/new.jsonl logs/streams.jsonl logs/compare.jsonl logs/replace.jsonl warm.jsonl; do
		fashim export -f sqlite -o speed.db $log && fashim report -f csv $log | tr -d "\r" >speed.csv || exit
		query speed.db "SELECT $names FROM site_speed" | tr "|" " " | rounded >exported
		sed "s/\"[^\"]*\"/text/g; s/,,/,-,/g; s/,,/,-,/g" speed.csv | awk -F, -v names=$names "
			{ for (i = 1; i <= NF && NR == 1; i++) at[\$i] = i }
			NR > 1 && \$at[\"app_us\"] != \"-\" { n = split(names, name, \",\"); for (i = 1; i <= n; i++) printf \"%s \", \$at[name[i]]; print \"\" }" | rounded >reported
		[ -s reported ] && diff exported reported || exit
	done'
t export_sqlite_replaces 0 'echo old >log.db; fashim export -f sqlite -o log.db logs/gemms.jsonl; query log.db "SELECT count(*) FROM run"; ls log.db*'
t export_output 0 'fashim export -o out.json logs/streams.jsonl; check_trace out.json; fashim export -o - logs/streams.jsonl | cmp - out.json'
t export_by_ending 0 'for ending in db sqlite folded json x; do fashim export -o by.$ending logs/old.jsonl; head -c 15 by.$ending | tr "\0" .; echo; done; fashim export -f folded -o by.db logs/old.jsonl; head -c 10 by.db'
t export_one_bad 1 'fashim export -f folded no_such.jsonl logs/old.jsonl | head -1; exit ${PIPESTATUS[0]}'
t export_missing 1 'fashim export no_such.jsonl; fashim export -f sqlite -o none.db no_such.jsonl; code=$?; ls none.db*; exit $code'
t export_unwritable 1 'for f in perfetto folded sqlite; do fashim export -f $f -o no/such/folder/x logs/old.jsonl; [ $? = 1 ] || exit 0; done; exit 1'
t export_to_folder 1 'fashim export -f sqlite -o none logs/old.jsonl; fashim export -o none logs/old.jsonl'
t export_full_disk 1 'fashim export -f folded logs/old.jsonl >/dev/full || fashim export -o /dev/full logs/old.jsonl'
t export_onto_log 2 'cp logs/old.jsonl mine.jsonl; fashim export -o ./mine.jsonl mine.jsonl && exit; cp mine.jsonl none/; fashim export -o none/mine.jsonl none; cmp mine.jsonl logs/old.jsonl; code=$?; rm none/*; exit $((code + 2))'
t export_gone 0 '(trap "" PIPE; while echo; do sleep 0.05; done 2>/dev/null; fashim export logs/old.jsonl; echo $? >&2) | true'
t export_no_log 2 'fashim export'
t export_bad_format 2 'fashim export -f nsys logs/old.jsonl'
t export_bad_weight 2 'fashim export -w bytes logs/old.jsonl'
t export_sqlite_stdout 2 'fashim export -f sqlite logs/old.jsonl'
# Times that overlap, go backwards, are missing, or are absurd.
holds export_always_nests '
	for seed in $(seq 20); do
		{ head -2 logs/streams.jsonl; awk -v seed=$seed "BEGIN { srand(seed); for (i = 0; i < 300; i++) {
			at = rand() < 0.1 ? \"null\" : rand() < 0.05 ? -5 : rand() < 0.05 ? 1e300 : rand() * 5000
			app = rand() < 0.1 ? \"null\" : rand() < 0.02 ? 1e40 : rand() * 100
			printf \"{\\\"type\\\":\\\"sample\\\",\\\"site\\\":%d,\\\"occurrence\\\":%d,\\\"at_us\\\":%s,\\\"stream\\\":%s,\\\"app_us\\\":%s,\\\"fused_us\\\":%f,\\\"verdict\\\":\\\"ok\\\"}\\n\",
				1 + rand() * 3, i, at, rand() < 0.1 ? \"null\" : int(rand() * 4), app, rand() * 50 } }"; } >random.jsonl
		fashim export -o random.json random.jsonl && check_trace random.json || exit 1
	done'
holds export_every_cut '
	size=$(stat -c %s logs/streams.jsonl)
	for ((i = $(head -1 logs/streams.jsonl | wc -c); i < size; i += 61)); do
		head -c $i logs/streams.jsonl >part; fashim export -o part.json part 2>/dev/null; check_trace part.json || exit 1
		fashim export -f sqlite -o part.db part 2>/dev/null && query part.db "SELECT count(*) FROM sample" || exit 1
	done'

# ---- what a log may hold that is an order and no text, in every form that is read by people or their programs
holds no_orders '
	order="\\\\u001b[31m\\\\u009b2J\\\\u0085\\\\u202e\\\\u2066\\\\u2028<script>alert(1)</script>\`\`\`"
	evil=$(printf "e\033[31m\302\2332J\342\200\256<script>\`\`\`.jsonl")
	for text in serve.py "Example GPU" gpu-box f16 "none\",\"form" model.py wmma_f16_d64 softmax slower; do
		sed -n "s|$text|$text$order|gp" logs/old.jsonl | grep -q . && expression="${expression-}s|$text|$order$text|g;"
	done
	sed "${expression}s|\"pid\":4242|\"pid\":77|" logs/old.jsonl >"$evil"
	[ "$(grep -o alert "$evil" | wc -l)" -gt 20 ] || exit
	shown() { # COMMAND...: what it prints
		"$@" >shown 2>&1; [ $? -le 1 ] || exit
		[ -s shown ] && ! LC_ALL=C grep -nP "\x1b|\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]" shown || { echo "$*"; exit 1; }
	}
	for form in table json csv md html; do shown fashim report -f $form "$evil"; done
	shown fashim report --site 1 "$evil"
	for form in table json markdown; do shown fashim diff -f $form "$evil" logs/new.jsonl; done
	for form in table json markdown junit; do shown fashim gate -f $form --baseline "$evil" "$evil"; done
	for form in perfetto folded; do shown fashim export -f $form "$evil"; done
	shown fashim run ./leave_log.sh "$evil"
	for command in "report -f md" "report -f html" "diff -f markdown logs/new.jsonl" "gate -f markdown" "gate -f junit"; do
		fashim $command "$evil" | grep -P "(?<!\\\\)<script>alert|^ {0,3}\`\`\`" && { echo "$command"; exit 1; }
	done
	fashim report -f json "$evil" | grep -q "u202e"'

# ---- run: programs below programs
t run_nested 0 'fashim run fashim run ./leave_log.sh logs/replace.jsonl'
t run_ranks_below 0 'fashim run sh -c "for r in 0 1 2; do RANK=\$r ./leave_log.sh logs/replace.jsonl; done"'
t run_many 0 'fashim run sh -c "for i in 1 2 3 4 5 6 7 8 9; do ./leave_log.sh logs/gemms.jsonl; done"'
t run_quotes 0 'mkdir "a place"; fashim run -o "a place/out.%p.jsonl" ./leave_log.sh logs/gemms.jsonl'
t run_many_bad 0 'fashim run sh -c "for i in 1 2 3 4; do ./leave_log.sh logs/headless.jsonl; done" 2>&1 | sed "s/[0-9]*\.jsonl/N.jsonl/"'
t run_odd_name 0 '
	mkdir "$(printf "a\nb\033\377")"; fashim run -o "$(printf "a\nb\033\377/it'"'"'s.jsonl")" ./leave_log.sh logs/gemms.jsonl 2>err; cat err
	eval "$(sed -n "s/^fashim: next: //p" err)" | grep "^  sites"'
t run_quiet 5 'fashim run -q sh -c "./leave_log.sh logs/replace.jsonl; exit 5"; code=$?; fashim run --quiet fashim run ./leave_log.sh logs/replace.jsonl; exit $code'
# xdg-open is one that writes down what it was asked to open.
mkdir desktop; printf '#!/bin/sh\necho "$1 $LD_PRELOAD" >>opened\n' >desktop/xdg-open; chmod +x desktop/xdg-open
t run_open 3 '
	export DISPLAY=:9 PATH="$PWD/desktop:$PATH"; cp logs/replace.jsonl mine.jsonl; echo mine >out.html
	fashim run --open -o out.jsonl sh -c "./leave_log.sh logs/replace.jsonl; exit 3"; code=$?; for i in $(seq 200); do grep -qs html opened && break; sleep 0.05; done; cat out.html opened; grep -c "</html>" out.1.html
	fashim run -q --open sh -c "./leave_log.sh logs/replace.jsonl; ./leave_log.sh logs/compare.jsonl" 2>&1 | sed "s/sh\.[0-9]*/sh.PID/;s/app\.[0-9]*/app.PID/"; rm -f out.* opened; exit $code'
t run_open_nowhere 0 '
	unset DISPLAY WAYLAND_DISPLAY; fashim run -q --open -o out.jsonl ./leave_log.sh logs/replace.jsonl; DISPLAY=:9 PATH=bin:few_tools fashim run -q --open -o o.jsonl ./leave_log.sh logs/replace.jsonl
	fashim run -q --open true; rm -f out.* o.*'
holds run_deaf_reader 'for i in 1 2 3; do { fashim run sh -c "exit 3"; echo $? >code; } 2>&1 | true; [ "$(cat code)" = 3 ] || exit 1; done'
holds run_exec 'fashim run sh -c "exec ./leave_log.sh logs/replace.jsonl" 2>err; grep -q "2 replaced" err'
holds run_stdin 'echo typed | fashim run cat 2>/dev/null | grep -qx typed'
holds run_dry_is_runnable 'eval "$(fashim run -n -e "A=it'"'"'s" printenv A)" | grep -qx "it'"'"'s"'
holds run_at_most_six_lines '
	fashim run sh -c "for i in 1 2 3 4; do ./leave_log.sh logs/headless.jsonl; ./leave_log.sh logs/replace.jsonl; done" 2>err >/dev/null
	[ "$(wc -l <err)" -le 6 ] && tail -1 err | grep -q "next: fashim report"'

# ---- doctor
# Tells of the program alone, on a machine with a driver.
doctor()
{
	LD_LIBRARY_PATH=$PWD/driver fashim doctor "$@" | sed -E "1,/can be written/d; s/all [0-9]+ libraries/all N libraries/"
	return "${PIPESTATUS[0]}"
}
export -f doctor
mkdir driver gone
cp "$build/tests/cli/doctor/libcuda.so.1" driver/
cp "$build/tests/cli/doctor/"* .
cp calls gone/
cp libcublas.so.13 gone/
strip -s -o stripped copy_inside
head -c 1000 calls >cut_program
head -c 100 calls >cut_header
{ head -c 18 calls; printf '\267\000'; tail -c +21 calls; } >foreign
printf '#!/usr/bin/env -S ./calls --x\n' >by_env
printf '#!./by_env\n' >by_script
chmod +x stripped cut_program cut_header foreign by_env by_script
t doctor_calls 0 'doctor ./calls --its -f options'
t doctor_contains 1 'doctor ./copy_inside'
t doctor_stripped 1 'doctor ./stripped'
t doctor_opens 0 'doctor ./opener'
t doctor_gone 1 'doctor ./gone/calls'
t doctor_static 1 'doctor ./static'
t doctor_script 0 'doctor ./by_script'
t doctor_foreign 1 'doctor ./foreign'
t doctor_cut 1 'doctor ./cut_program; doctor ./cut_header'
t doctor_junk 1 'doctor ./bad_script; doctor ./logs/junk.bin; doctor ./none'
t doctor_not_found 1 'doctor no-such-program-here; doctor ./no/such/program'
t doctor_preloads 0 "LD_PRELOAD=$work/foreign:$work/libgone.so doctor ./calls 2>&1 | grep LD_PRELOAD"
t doctor_json 0 'LD_LIBRARY_PATH=driver fashim doctor -f json ./calls | sed "1,/\"program\"/d" | head -6'
t doctor_csv 0 'LD_LIBRARY_PATH=driver fashim doctor -f csv ./calls | tr -d "\r" | sed -n "1p; /^program/p" | sed -E "s/all [0-9]+ libraries/all N libraries/"'
t doctor_driver 0 'LD_LIBRARY_PATH=driver fashim doctor | grep -E "driver|GPU" | sed "s/: [0-9]* kernel/: N kernel/"'
for fault in crash 34 100 999 none old; do
	t "doctor_driver_$fault" 1 "DRIVER=$fault LD_LIBRARY_PATH=driver fashim doctor >out; code=\$?; grep -E 'driver|GPU|^ *->' out; exit \$code"
done
t doctor_driver_lacks 0 "SIMGPU_DRIVER=12.2 LD_LIBRARY_PATH=$build/simgpu fashim doctor | grep driver | sed 's#, /.*/#, FOLDER/#; s/with CUDA [0-9]*/with CUDA N/'"
# A build with text alone: for one GPU it can be compiled, for the other it is too new.
t doctor_text 1 "
	for arch in 120 75; do SIMGPU_ARCH=\$arch XDG_CACHE_HOME=$work/none LD_LIBRARY_PATH=$build/simgpu '$build/text/fashim' doctor | grep -A1 GPU; done
	SIMGPU_ARCH=120 XDG_CACHE_HOME=/proc/none LD_LIBRARY_PATH=$build/simgpu '$build/text/fashim' doctor --prepare -f csv | grep GPU; exit \${PIPESTATUS[0]}"
t doctor_prepare 0 "SIMGPU_ARCH=120 XDG_CACHE_HOME=$work/compiled LD_LIBRARY_PATH=$build/simgpu '$build/text/fashim' doctor --prepare | grep GPU | sed 's#: [0-9]* kernel#: N kernel#'; ls $work/compiled/fashim | wc -l"
t doctor_driver_early 0 'DRIVER=early LD_LIBRARY_PATH=driver fashim doctor | grep -A1 warn | sed "s/with CUDA [0-9]*/with CUDA N/"'
# Of a process: the shim is in it, was not asked for, was asked for and is not there; it maps libraries of these names.
t doctor_process 1 '
	look() { doctor "$1" | sed -E "s/$1/PID/g; s#/.*/sleep#sleep#"; return "${PIPESTATUS[0]}"; }
	for preload in "$PWD/bin/libfashim.so $PWD/libcublas.so.13 $PWD/driver/libcuda.so.1" "" "$PWD/nowhere/libfashim.so"; do
		LD_PRELOAD=$preload FASHIM=audit sleep 100 2>err & for i in $(seq 600); do [ "$(cat /proc/$!/comm)" = sleep ] && grep -q libc.so /proc/$!/maps && break; sleep 0.1; done
		look $!; echo "status $?"; kill $!
	done; look 4194305'
t doctor_full_disk 1 'for form in table json csv; do LD_LIBRARY_PATH=driver fashim doctor -f $form ./calls >/dev/full; [ $? = 1 ] || exit 0; done; exit 1'
t doctor_bad_format 2 'fashim doctor --format=xml'
t doctor_no_shim 1 'LD_LIBRARY_PATH=driver alone/fashim doctor | head -3; exit ${PIPESTATUS[0]}'
t doctor_options 0 'FASHIM_SAMPEL=1 FASHIM_TOL=nan LD_LIBRARY_PATH=driver fashim doctor | grep options'
holds doctor_setuid '[ "$(id -u)" != 0 ] || { cp calls bit; chown 12345 bit; chmod u+s bit; doctor ./bit | grep -q "FAIL  rights"; }'
holds doctor_torch '
	command -v python3 >/dev/null || exit 0
	mkdir -p site/torch/lib site/torch-9.8.dist-info
	: >site/torch/__init__.py
	printf "Metadata-Version: 2.1\nName: torch\nVersion: 9.8\n" >site/torch-9.8.dist-info/METADATA
	cp calls site/torch/lib/libtorch_cuda.so
	PYTHONPATH=$PWD/site doctor python3 app.py >out
	cat out; grep -q "torch 9.8:" out && grep -q "libtorch_cuda.so is linked against cuBLAS (cublasGemmEx" out'
holds doctor_random_programs '
	tried() {
		RANDOM=$1
		cp calls spoilt
		for k in 1 2 3 4; do
			printf "\\x$(printf %x $((RANDOM % 256)))" | dd of=spoilt bs=1 seek=$((RANDOM % (k < 3 ? 1000 : 16000))) conv=notrunc 2>/dev/null
		done
		doctor ./spoilt >out 2>&1; [ $? -le 1 ] && [ -s out ] || kept "$1"
	}
	random_rounds 40 tried'

# ---- replay
cp "$here/../traces/naive_512.trace.gz" "$here/../traces/edit_p.trace.gz" "$here/../traces/graph.trace.gz" .
gzip -dc naive_512.trace.gz >plain.trace
cp naive_512.trace.gz "it's.trace.gz"
head -c 700 naive_512.trace.gz >cut.trace.gz
{ echo "# fashim-trace 3"; tail -n +2 plain.trace; } >newer.trace
{ head -20 plain.trace; echo "L 1 2"; } >bad_line.trace
: >empty.trace
t replay 0 'fashim replay -r 6 naive_512.trace.gz'
t replay_plain 0 "fashim replay plain.trace >a; fashim replay \"it's.trace.gz\" >b; cmp a b && tail -3 a"
t replay_misnamed 0 'cp plain.trace plain.trace.gz; cp naive_512.trace.gz packed.trace; fashim replay plain.trace.gz | tail -1; fashim replay packed.trace | tail -1'
t replay_all 0 'fashim replay --all -r 6 naive_512.trace.gz | grep -c "one fused launch"'
t replay_audit 0 'fashim replay -m audit -r 6 naive_512.trace.gz | tail -4'
t replay_declined 0 'fashim replay edit_p.trace.gz | sed -n "/^chain 1$/,/^chain 2/p"'
t replay_capture 0 'fashim replay graph.trace.gz | sed -n "/^no chain/,/^chain/p" | head -4'
t replay_json 0 'fashim replay -f json -r 6 naive_512.trace.gz | grep -v \"kernel\" | tail -34'
t replay_environment 0 'FASHIM_RECORD=x FASHIM_OUT=y FASHIM_ONLY=nobody FASHIM_SKIP=fashim fashim replay -r 6 plain.trace | tail -1; [ ! -e x ] && [ ! -e y ]'
t replay_learn 0 'FASHIM_MIN_SCORES=1000000000 fashim replay -r 6 plain.trace | tail -1'
t replay_killed 0 'head -c -7 plain.trace >killed.trace; fashim replay killed.trace | tail -2'
t replay_missing 1 'fashim replay no_such.trace'
t replay_missing_packed 1 'fashim replay no_such.trace.gz'
t replay_cut 1 'fashim replay cut.trace.gz 2>&1 | tail -1; exit ${PIPESTATUS[0]}'
t replay_newer 1 'fashim replay newer.trace'
t replay_bad_line 1 'fashim replay bad_line.trace 2>&1 >/dev/null'
t replay_empty 1 'fashim replay empty.trace'
t replay_other 1 'fashim replay logs/replace.jsonl'
t replay_no_trace 2 'fashim replay'
t replay_two 2 'fashim replay a b'
t replay_bad_rounds 2 'fashim replay -r 0 plain.trace'
t replay_bad_mode 2 'fashim replay -m off plain.trace'
t replay_told_twice 0 'fashim replay "$TRACES/bert.trace.gz" | tail -2'
t replay_far_stream 0 'sed "s/^\(G [^ ]*\) 0 /\1 9223372036854775807 /" plain.trace >far.trace; fashim replay far.trace | tail -1'
t replay_endless_line 1 '
	grep -q __asan "$(command -v fashim)" || ulimit -v 100000 # KB
	{ head -1 plain.trace; yes "L 1 2" | tr -d "\n" | head -c 400000000; } >endless.trace
	fashim replay endless.trace; code=$?; rm endless.trace; exit $code'
t replay_folder 1 'fashim replay none'
t replay_full_disk 1 'for form in table json; do fashim replay -f $form plain.trace >/dev/full; [ $? = 1 ] || exit 0; done; exit 1'
# Each site once, under its number, in both forms.
holds replay_every_trace '
	for trace in "$TRACES"/*.trace.gz; do
		fashim replay "$trace" >table && fashim replay -f json "$trace" >json || { echo "$trace"; exit 1; }
		sed -n "s/^site \([0-9]*\) .*/\1/p" table >numbers
		sed -n "s/^   *\"site\": \([0-9]*\).*/\1/p" json | cmp - numbers || { echo "$trace"; exit 1; }
		[ -z "$(sort numbers | uniq -d)" ] || { echo "$trace"; exit 1; }
	done
	[ "$(ls "$TRACES"/*.trace.gz | wc -l)" -gt 100 ]'
holds replay_random_traces '
	size=$(stat -c %s plain.trace)
	tried() {
		local seed=$1

		RANDOM=$seed
		cp plain.trace spoilt
		for k in 1 2 3 4 5 6; do
			printf "$((RANDOM % 10))" | dd of=spoilt bs=1 seek=$((20 + (RANDOM * 32768 + RANDOM) % (size - 20))) conv=notrunc 2>/dev/null
		done
		fashim replay -r 3 spoilt >out 2>&1 && fashim replay -f json spoilt >out 2>&1; [ $? -le 1 ] || kept "$seed"
	}
	random_rounds 40 tried'

# ---- bench: documents kept
t help_bench 0 'fashim help bench'
t bench_ladder 0 'fashim bench --ladder --from logs/bench_ladder.json'
t bench_ladder_ascii 0 'LC_ALL=C fashim bench -l --from logs/bench_ladder.json | sed -n 4,6p'
t bench_ladder_csv 0 'fashim bench -l -f csv --from logs/bench_ladder.json | tr -d "\r"'
t bench_ladder_md 0 'fashim bench -l --format=md --from logs/bench_ladder.json | head -8'
t bench_ladder_svg 0 'fashim bench -l --from logs/bench_ladder.json --svg ladder.svg >/dev/null; cat ladder.svg'
t bench_ladder_wrong 1 '
	sed "0,/\"max\": 0.00024/s//\"max\": 0.445/; s/\"exact\": true/\"exact\": false/" logs/bench_ladder.json >wrong.json
	fashim bench -l --color=always --from wrong.json | grep WRONG; exit ${PIPESTATUS[0]}'
t bench_ladder_nonfinite 1 '
	sed "s/\"nonfinite\": 0/\"nonfinite\": 7/" logs/bench_ladder.json >nonfinite.json
	fashim bench -l --from nonfinite.json | grep -c WRONG; exit ${PIPESTATUS[0]}'
t bench_ladder_holes 0 'echo "{\"format\":\"fashim-ladder\",\"version\":1,\"steps\":[{},{\"number\":2,\"us\":[\"x\",-1,0]}]}" >holes.json
	fashim bench -l --from holes.json --svg holes.svg; grep -c "<circle" holes.svg'
t bench_gate 0 'fashim bench --gate --from logs/bench_gate.json'
t bench_gate_md 0 'fashim bench -g -f md --from logs/bench_gate.json'
t bench_gate_csv 0 'fashim bench -g -f csv --from logs/bench_gate.json | tr -d "\r"'
t bench_gate_json 0 'fashim bench -g --evidence kept.json --from logs/bench_gate.json >/dev/null; fashim bench -g -f json --from kept.json | cmp - kept.json; sed -n "/max_ratio/,\$p" kept.json | grep -v "^    0"'
t bench_gate_limit 1 'fashim bench -g -r 0.41 --from logs/bench_gate.json | tail -6; exit ${PIPESTATUS[0]}'
t bench_gate_wrong 1 'sed "0,/\"max\": 0.00018/s//\"max\": 0.001/" logs/bench_gate.json >wrong.json; fashim bench -g --from wrong.json | tail -1; exit ${PIPESTATUS[0]}'
t bench_gate_secret 2 'sed "s/softmax_warp_forward/fmha_cutlassF_f16/" logs/bench_gate.json >secret.json; fashim bench -g --color=always --from secret.json | tail -1; exit ${PIPESTATUS[0]}'
t bench_gate_replaced 2 'sed "s/fashim_ladder_07_cublas_hybrid/fashim_split_f16_d64_p4/" logs/bench_gate.json >secret.json; fashim bench -g --from secret.json | tail -1; exit ${PIPESTATUS[0]}'
t bench_gate_no_flash 2 'sed "s/void pytorch_flash::flash_fwd_kernel<>/softmax_warp_forward/" logs/bench_gate.json >plain.json; fashim bench -g --from plain.json | tail -1; exit ${PIPESTATUS[0]}'
t bench_gate_astray 2 'sed "s/\"max\": 0.00052/\"max\": 0.21/" logs/bench_gate.json >astray.json; fashim bench -g --from astray.json | tail -1; exit ${PIPESTATUS[0]}'
t bench_gate_few 1 'echo "{\"format\":\"fashim-oracle\",\"version\":1,\"tolerance\":0.001,\"candidate\":{\"us\":[1,1,1,1],\"error\":{\"max\":0,\"nonfinite\":0,\"cases\":1}},\"references\":[{\"name\":\"cuBLAS chain\",\"us\":[9,9,9,9],\"error\":{\"max\":0}}]}" >few.json
	fashim bench -g --from few.json | tail -4; exit ${PIPESTATUS[0]}'
t bench_gate_nobody 2 'echo "{\"format\":\"fashim-oracle\",\"version\":1}" >nobody.json; fashim bench -g --from nobody.json | tail -1; exit ${PIPESTATUS[0]}'
t bench_from_other 2 'fashim bench --gate --from logs/bench_ladder.json; fashim bench --gate --from logs/junk.bin; fashim bench -l --from no_such.json'
t bench_full_disk 2 'fashim bench -l --from logs/bench_ladder.json >/dev/full'
t bench_unwritable 2 'fashim bench -l --from logs/bench_ladder.json --svg no/such/x.svg >/dev/null; fashim bench -g --from logs/bench_gate.json --evidence /dev/full >/dev/null'

# ---- bench: usage, and what may be missing
t bench_bad 0 '
	for options in "" "-l -g" "-l --kernel=x" "-l --dtype=bf16" "-g --svg=x" "-g --python=x --no-python" "-g --shape=1,8,512" "-g --shape=1,8,512,64,64,1" \
	    "-g --shape=1,8,512,64x" "-g --shape=0,8,512,64" "-g --shape=1,8,512,320" "-g --rounds=4" "-g --cases=0" "-g --seed=-1" "-g --max-ratio=0" \
	    "-g --max-ratio=nan" "-g --max-ratio=95%" "-g --dtype=f64" "-g --format=svg" "-g --color=blue" "-g --frob" "-g x"; do
		fashim bench $options 2>err; code=$?; head -1 err; [ $code = 2 ] || echo "$options: $code"
	done'
mkdir none_driver
: >none_driver/libcuda.so.1
t bench_no_driver 2 'LD_LIBRARY_PATH=none_driver fashim bench --ladder'
t bench_old_driver 2 'LD_LIBRARY_PATH=driver fashim bench --ladder'
export SIMGPU="$build/simgpu" BENCH="--library=$build/sim/libfashim_kernels.so --referee=$here/referee.py --shape=1,1,64,64 --rounds=5 --cases=2 --max-ratio=1e-4"
t bench_no_kernels 2 'LD_LIBRARY_PATH=$SIMGPU fashim bench --gate; LD_LIBRARY_PATH=$SIMGPU fashim bench --gate --library=no_such.so'
t bench_no_cublas 2 'LD_LIBRARY_PATH=$SIMGPU fashim bench --gate --cublas=/no/such/libcublas.so $BENCH'
t bench_no_kernel 2 'LD_LIBRARY_PATH=$SIMGPU fashim bench --gate --no-python --kernel=wmma_f16_d65 $BENCH'

# ---- bench: whole runs on the CPU stand-in
# Its times mean nothing; who took part and the errors do, and that it is faster than a PyTorch that takes
# minutes and not ten thousand times as fast as the chain.
simulated()
{
	# shellcheck disable=SC2086 # several options
	LD_LIBRARY_PATH=$SIMGPU fashim bench $BENCH "$@"
}
export -f simulated
t bench_simulated_gate 1 '
	simulated --gate --kernel=wmma_f16_d64_r64 --evidence gate.json >/dev/null; code=$?
	grep -E "\"(name|reference|passed|correct|refused|torch|fused)\"" gate.json; exit $code'
export LADDER="$here/../../kernels/ladder/ladder.def"
holds bench_simulated_ladder '
	simulated --ladder -f csv --evidence ladder.json >steps.csv || exit
	grep -o "^LADDER[A-Z_]*([0-9 ]*, [0-9a-z_]*" "$LADDER" | sed "s/.*, //" >labels
	[ "$(wc -l <labels)" -gt 10 ] || exit
	while read -r label; do
		grep -qE "^step,ladder/$label,([0-9.]+,){2}([0-9.e-]+,){5}" steps.csv || { echo "no $label"; exit 1; }
	done <labels
	[ "$(grep -c ^step steps.csv)" = $(($(wc -l <labels) + 1)) ]'
t bench_simulated_lines 0 'fashim bench -l --from ladder.json | head -3; fashim bench -l -f csv --from ladder.json | grep -v ^step | cut -d, -f1,2'
t bench_simulated_bf16 1 'simulated --gate --dtype=bf16 --causal --shape=1,1,64,80,64 -f json | grep -E "\"(text|correct|tolerance|refused)\""; exit ${PIPESTATUS[0]}'
t bench_simulated_seed 0 'for i in 1 2; do simulated --gate --no-python --seed=7 -f json | grep -E "\"(max|rms)\"" >errors.$i; done; cmp errors.1 errors.2 || exit; simulated --gate --no-python --seed=8 -f json | grep -E "\"(max|rms)\"" >errors.3; ! cmp -s errors.1 errors.3'
t bench_no_torch 1 'REFEREE=none simulated --gate -f csv | cut -d, -f1; exit ${PIPESTATUS[0]}'
t bench_no_python 1 'simulated --gate --python=no-such-python -f csv | cut -d, -f1; exit ${PIPESTATUS[0]}'
t bench_junk_torch 1 'REFEREE=junk simulated --gate -f csv | cut -d, -f1; exit ${PIPESTATUS[0]}'
t bench_secret_torch 2 'REFEREE=secret simulated --gate | tail -1; exit ${PIPESTATUS[0]}'
t bench_unnamed_torch 2 'REFEREE=unnamed simulated --gate | tail -1; exit ${PIPESTATUS[0]}'
t bench_broken_torch 2 'REFEREE=broken simulated --gate'
t bench_dead_torch 2 'REFEREE=dies simulated --gate'

# ---- list
t list 0 'fashim list'
t list_rules 0 'fashim list rules | head -3'
t list_kernels_json 0 'fashim list kernels -f json | head -12'
t list_options_tsv 0 'fashim list options -f tsv | head -2'
t list_csv 0 'fashim list options -f csv | tr -d "\r" | head -3; fashim list kernels -f csv | wc -l; fashim list kernels -f tsv | wc -l; fashim reasons -f csv | tr -d "\r" | sed -n "1p;/^unknown_kernel/p"; FASHIM=audit fashim env -f csv | tr -d "\r" | head -2'
t list_bad_table 2 'fashim list kernel'
t list_bad_format 2 'fashim list kernels -f yaml'
t list_two 2 'fashim list kernels rules'
cp "$here/logs/bad.rules" .
export DOCS="$here/../../docs"
# All that the grammar refuses, and the examples of docs/rules.md.
t list_check 1 'fashim list rules --check bad.rules'
t list_check_good 0 'sed -n "/^\`\`\`rules\$/,/^\`\`\`\$/{/^\`/d;p}" "$DOCS/rules.md" >docs.rules; fashim list rules --check docs.rules; : >no.rules; fashim list rules --check no.rules'
t list_check_many 1 'for i in $(seq 130); do echo "kernel_${i}_ other in=p0 count=1 dtype=f16"; done >many.rules; fashim list rules --check many.rules'
t list_check_file 1 'cp docs.rules open.rules; chmod 666 open.rules; for f in none open.rules nowhere; do fashim list rules --check $f; [ $? = 1 ] || exit 0; done; exit 1'
t list_check_usage 2 'fashim list kernels --check docs.rules; [ $? = 2 ] && fashim list --check docs.rules'
# The documented grammar has the roles and keys that are taken.
holds list_check_roles '
	words() { tr -cs "a-z_" "\n" | sort | xargs; }
	sed -n "/^| role/,/^\$/s/^| \`\([a-z_]*\)\` |[^|]*|\(.*\)/\1\2/p" "$DOCS/rules.md" | grep -o "^[a-z_]*\|\`[^\`]*\`" | awk "/^[a-z]/ { role = \$0; next } { print role, \$0 }" >documented
	[ "$(cut -d" " -f1 documented | sort -u | wc -l)" = 7 ] || exit
	for role in $(cut -d" " -f1 documented | sort -u); do
		echo "k $role nokey=1" >nokey.rules
		taken=$(fashim list rules --check nokey.rules | sed -n "s/.*it takes //p" | words)
		[ "$(sed -n "s/^$role //p" documented | words)" = "$taken" ] && [ "$taken" ] || { echo "$role: $taken"; exit 1; }
	done'

# ---- what the shim says of itself
# The rooms that speak are those that can be chosen, and those that the documentation names.
holds debug_rooms '
	cd "$DOCS/.."; rooms=$(grep -rl "message_debug(" shim --include=*.c | cut -d/ -f2 | sort -u | grep -v base)
	sed -n "/^| room | what it says/,/^\$/s/^| \`\([a-z]*\)\`.*/\1/p" docs/recipes.md | sort | cmp - <(echo "$rooms") &&
	sed -n "/ rooms\[\] = {/,/};/p" shim/base/message.c | grep -o "\"[a-z]*\"" | tr -d "\"" | sort | cmp - <(echo "$rooms")'
# A debugger stops at the tracepoints, and finds their arguments where docs/recipes.md has them.
t tracepoints 0 '
	{ gdb -batch -ex "break main" -ex run bin/ended </dev/null 2>&1 | grep -q "^Breakpoint 1, "; } 2>/dev/null && ! grep -q __asan "$BUILD/sim/libfashim.so" || { cat '"$here"'/expected/tracepoints.out; exit 0; }
	at() { printf "break -probe-stap fashim:%s\ncommands\nsilent\nprintf \"%s%s\\\\n\", %s\ncontinue\nend\n" "$1" "$1" "$2" "$3"; }
	{
		printf "set environment %s\n" "LD_PRELOAD $BUILD/sim/libfashim.so" "LD_LIBRARY_PATH $BUILD/simgpu" "FASHIM_OUT none" "FASHIM_MIN_SPEEDUP 0" "FASHIM_BUDGET 0"
		printf "break main\nrun 6\n"
		at site_new " site %d, %ld scores" "(int)\$_probe_arg0, (long)\$_probe_arg1"; at site_state " site %d call %d: %d" "(int)\$_probe_arg0, (int)\$_probe_arg1, (int)\$_probe_arg2"
		at compared " site %d call %d, timed %d %d" "(int)\$_probe_arg0, (int)\$_probe_arg1, (long)\$_probe_arg2 > 0, (long)\$_probe_arg3 > 0"
		at replaced " site %d call %d" "(int)\$_probe_arg0, (int)\$_probe_arg1"; echo continue
	} >points.gdb
	gdb -batch -x points.gdb "$BUILD/apps/sim/demo" 2>&1 </dev/null | grep -E "^(site_|compared|replaced)"'
t debug_messages 0 '
	said() { FASHIM_LOG=$1 FASHIM_OUT=none FASHIM_MIN_SPEEDUP=0 FASHIM_BUDGET=0 LD_LIBRARY_PATH=$BUILD/simgpu LD_PRELOAD=$BUILD/sim/libfashim.so "$BUILD/apps/sim/"$2 2>&1 >/dev/null | grep -o "^fashim: [A-Z_a-z]*[:=]" | sort -u | xargs; }
	said info demo; said debug demo; said debug:site,gpu demo; said debug:ask "unseen in_two"; said debug:hook demo'

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
# On a narrow terminal words stay whole, and nothing is wider than it.
t lists_narrow 0 'export COLUMNS=60; fashim env | head -12; fashim reasons | head -12; fashim list kernels | sed -n "1,3p;/mma_f16_d32_r128 /,+1p"; fashim list rules | head -5'
holds lists_narrow_fit 'export COLUMNS=60; for words in env reasons "list kernels" "list options"; do fashim $words | LC_ALL=C.UTF-8 awk "length() > 60 { print; bad = 1 } / \$/ { print \"a space at its end:\", \$0; bad = 1 } END { exit bad }" || exit; done'
# ---- tune: what needs no GPU
t help_tune 0 'fashim help tune'
t tune_bad 0 '
	for options in "-s 1,2,3" "-s 1,8,512,512,64,f64" "-s 1,8,512,512,64,pointers" "--top=0" "--rounds=9" "--rounds=x" "--seed=-1" "--format=yaml" \
	    "--arch=1" "--list --clear" "--dry-run --list" "x.jsonl" "--frob"; do
		fashim tune $options 2>err; code=$?; head -1 err; [ $code = 2 ] || echo "$options: $code"
	done'
t tune_no_log 2 'fashim tune --from no_such.jsonl'
t tune_no_calls 1 'fashim tune --from logs/gemms.jsonl'
t tune_dry 0 'fashim tune --dry-run -s 4,16,128,128,64,bf16 | awk "{ print \$3 }" | uniq'
t tune_dry_usual 0 'fashim tune --dry-run -f csv | sed "1d; s/\",.*//; s/\"//" | uniq'
t tune_dry_log 0 'fashim tune --dry-run --from logs/replace.jsonl -s 1,1,1,7,64,causal -f json | grep form | uniq'
t tune_dry_arch 0 'fashim tune --dry-run -f md --arch=75 -s 1,8,512,512,64 | cut -d"|" -f1-4 | head -3'
t tune_no_driver 2 'LD_LIBRARY_PATH=none_driver fashim tune'
t tune_old_driver 2 'LD_LIBRARY_PATH=driver fashim tune'

# ---- tune: the cache
export XDG_CACHE_HOME=$work/cache
t tune_list_none 0 'fashim tune --list; fashim tune --list --format=json; fashim tune --clear'
t tune_no_place 1 'XDG_CACHE_HOME= HOME= fashim tune --list'
mkdir -p cache/fashim
cp "$here/logs/tune_h200.txt" cache/fashim/tune-NVIDIA_H200-13000-0123456789abcdef.txt
sed 's/H200/L4/; /^kept/d' "$here/logs/tune_h200.txt" >cache/fashim/tune-NVIDIA_L4-13000-0123456789abcdef.txt
echo 'a diary' >cache/fashim/diary.txt
t tune_list 0 'fashim tune --list'
t tune_list_ascii 0 'LC_ALL=C fashim tune --list --cache logs/tune_h200.txt'
t tune_list_csv 0 'fashim tune --list -f csv | tr -d "\r"'
# A letter beyond ASCII stays, what moves a terminal's cursor does not.
t tune_list_name 0 '
	sed "s/split_/Ü\xc2\x9b_/g" logs/tune_h200.txt >name.txt
	for format in csv json; do fashim tune --list -f $format --cache name.txt | grep -o "Ü[^,\"]*"; done'
t tune_list_json 0 'fashim tune --list -f json --cache logs/tune_h200.txt'
t tune_list_md 0 'fashim tune --list --format=markdown --cache logs/tune_h200.txt'
t tune_list_named 0 'FASHIM_TUNE_CACHE=logs/tune_h200.txt fashim tune --list | head -1; FASHIM_TUNE_CACHE=off fashim tune --list -f csv | wc -l'
t tune_list_bad 1 '
	cp logs/junk.bin cache/fashim/tune-a.txt; sed "s/tune 1/tune 2/" logs/tune_h200.txt >cache/fashim/tune-b.txt
	fashim tune --list -f csv | wc -l; exit ${PIPESTATUS[0]}'
t tune_list_missing 1 'fashim tune --list --cache no_such.txt'
t tune_full_disk 1 'fashim tune --list >/dev/full'
t tune_clear 1 'fashim tune --clear; code=$?; ls cache/fashim; exit $code'
t tune_clear_named 0 'cp logs/tune_h200.txt mine.txt; fashim tune --clear --cache=mine.txt; [ ! -e mine.txt ]'
t tune_clear_log 1 'cp logs/replace.jsonl mine.jsonl; fashim tune --clear --cache=mine.jsonl; code=$?; [ -e mine.jsonl ] && exit $code'

# ---- tune: on the simulated GPU
# Interrupted when the first result is there: that one is kept, and shown.
holds tune_interrupted '
	LD_LIBRARY_PATH=$SIMGPU fashim tune --library='"$build"'/sim/libfashim_kernels.so --rounds=10 --cache=cut.txt -f csv \
	    -s 1,1,1,16,64 -s 1,8,16,64,64 -s 1,8,16,96,64 -s 1,8,32,96,64 -s 1,8,64,128,64 -s 1,8,96,128,64 >cut.csv 2>cut.err & pid=$!
	for i in $(seq 3000); do [ -e cut.txt ] && break; sleep 0.1; done
	kill -INT $pid; wait $pid; code=$?
	cat cut.err; kept=$(grep -cE "^(choice|kept) " cut.txt)
	[ $code = 130 ] && [ $kept -ge 1 ] && [ $kept -lt 6 ] && [ $(wc -l <cut.csv) = $((kept + 1)) ] &&
	    grep -q "interrupted: the results of $kept of 6 calls are kept" cut.err'
holds tune_again '
	LD_LIBRARY_PATH=$SIMGPU fashim tune --library='"$build"'/sim/libfashim_kernels.so --rounds=10 --cache=cut.txt -s 1,1,1,16,64 >again.out 2>&1 && grep -c 1,1,1,16,64 cut.txt | grep -qx 1'
# Whatever takes long says so on a terminal, and its line is gone at the end.
holds progress_everywhere '
	slow() { head -2; sleep 5; cat; }
	for k in diff gate export html; do mkfifo pace.$k; slow <logs/new.jsonl >pace.$k & done; mkfifo pace.replay; gzip -dc "$TRACES/naive_512.trace.gz" | slow >pace.replay &
	on() { local name=$1; shift; script -qec "LD_LIBRARY_PATH=$SIMGPU fashim $* 2>&1 >/dev/null" /dev/null </dev/null >said.$name & }
	on diff diff pace.diff logs/new.jsonl; on gate gate pace.gate; on export export pace.export; on html report -f html -o pace.html.out pace.html; on replay replay pace.replay
	on bench bench $BENCH --rounds=20 --ladder; on tune tune --library='"$build"'/sim/libfashim_kernels.so --rounds=10 --cache=pace.txt -s 1,8,16,64,64; wait
	for name in diff gate export html replay bench tune; do
		tr "\r\033" "\nE" <said.$name >lines
		case $name in bench) grep -q "rounds in turn: [0-9]* %" lines ;; tune) grep -q "^E\[K\[1/1\] 1,8,16,64,64" lines ;; *) grep -q "^E\[K.*: [0-9.]* bytes" lines ;; esac &&
		    { [ $name = tune ] || [ "$(grep -c "^E\[K" lines)" -ge 2 ]; } || { echo "$name"; cat -v said.$name; exit 1; }
	done'
t tune_no_kernel 1 '
	LD_LIBRARY_PATH=$SIMGPU fashim tune --library='"$build"'/sim/libfashim_kernels.so --cache=cut.txt -s 1,1,1,16,512 -f csv | tr -d "\r"; exit ${PIPESTATUS[0]}'
t tune_not_ours 0 '
	cp logs/tune_h200.txt other.txt
	LD_LIBRARY_PATH=$SIMGPU fashim tune --library='"$build"'/sim/libfashim_kernels.so --rounds=10 --cache=other.txt -s 1,1,1,16,64 2>&1 >/dev/null | grep "not of this"; cmp other.txt logs/tune_h200.txt'

holds scanner "'$build/tests/cli/test_scan'"
t log_examples 0 'command -v jq >/dev/null || { cat '"$here"'/expected/log_examples.out; exit 0; }
	sed -n "/^\\.EX/,/^\\.EE/{/^\\.E/d;s#LOG\$#logs/replace.jsonl#;s#\\\\(aq#\x27#g;s#\\\\-#-#g;p}" '"$build"'/man/fashim.7 | bash'
holds docs "'$here/docs.sh' '$build'"
holds readme_tables "'$here/readme.sh' '$build'"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
