# SPDX-License-Identifier: Apache-2.0
#
# Cases of run.sh: `fashim doctor`, `replay`, `bench`, `list`, `env` and `tune`, and what the shim says of itself.
#
# shellcheck shell=bash disable=SC2016,SC2154

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
