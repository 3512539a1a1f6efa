# SPDX-License-Identifier: Apache-2.0
#
# Cases of run.sh: commands and typos, and `fashim run`.
#
# shellcheck shell=bash disable=SC2016,SC2154

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
