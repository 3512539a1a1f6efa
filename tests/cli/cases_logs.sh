# SPDX-License-Identifier: Apache-2.0
#
# Cases of run.sh: what is made of logs: `fashim diff`, `gate` and `export`, and logs that mean harm.
#
# shellcheck shell=bash disable=SC2016,SC2154

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
