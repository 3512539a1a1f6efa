# SPDX-License-Identifier: Apache-2.0
#
# Cases of run.sh: `fashim report` and `fashim top`.
#
# shellcheck shell=bash disable=SC2016,SC2154

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
