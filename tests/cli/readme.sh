#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# readme.sh BUILD [--update | --picture]: what the README quotes of the command must be what the command says: the
# tables of options and reasons that it is compiled from, the kernel times that were measured last, and its first
# screen, from the logs of docs/example. Says where they differ; --update writes them anew, --picture takes
# docs/report.png from a page in Chromium.

set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
readme=$here/../../README.md
example=$here/../../docs/example
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What stands between "<!-- begin NAME -->" and "<!-- end NAME -->" of $work/readme is replaced by standard input.
replace()
{
	cat >"$work/text"
	awk -v name="$1" -v text="$work/text" '
		$0 == "<!-- end " name " -->" { skip = 0 }
		!skip { print }
		$0 == "<!-- begin " name " -->" { skip = 1; while ((getline line <text) > 0) print line }
	' "$work/readme" >"$work/next"
	mv "$work/next" "$work/readme"
}

# In the place of python3 and its model: what they printed, and their log, as a log of this process.
mkdir "$work/bin"
cp "$build/fashim" "$work/bin/"
cp "$build/tests/cli/fake.so" "$work/bin/libfashim.so"
cat >"$work/bin/python3" <<'EOF'
#!/bin/sh
cat "$EXAMPLE/$RUN.out"
log=$(printf %s "$FASHIM_OUT" | sed "s/%e/python3/; s/%p/$$/; s/%%/%/g")
gzip -dc "$EXAMPLE/$RUN.jsonl.gz" | sed "1s/\"pid\":[0-9]*/\"pid\":$$/" >"$log"
EOF
chmod +x "$work/bin/python3"

# run RUN COMMAND: the command and what it says, with the number that the process had.
run()
{
	pid=$(gzip -dc "$example/$1.jsonl.gz" | sed -n '1s/.*"pid":\([0-9]*\).*/\1/p')
	echo "\$ $2"
	(
		cd "$work"
		env -i PATH="$work/bin:$PATH" LC_ALL=C.UTF-8 COLUMNS=140 EXAMPLE="$example" RUN="$1" sh -c "$2" 2>&1
	) | sed "s/python3\.[0-9]*\.jsonl/python3.$pid.jsonl/"
	rm -f "$work"/fashim.*
}
example=$(cd "$example" && pwd)

# The report is of the run's own name.
report()
{
	pid=$(gzip -dc "$example/$1.jsonl.gz" | sed -n '1s/.*"pid":\([0-9]*\).*/\1/p')
	gzip -dc "$example/$1.jsonl.gz" >"$work/fashim.python3.$pid.jsonl"
	run "$1" "fashim report fashim.python3.$pid.jsonl"
}

if [ "${2-}" = --picture ]; then
	"$build/fashim" report -f html -o "$work/page.html" "$example/compare.jsonl.gz"
	"$(command -v chromium-headless-shell || command -v chromium)" --headless --no-sandbox --disable-gpu --hide-scrollbars --blink-settings=preferredColorScheme=1 \
		--window-size=1600,1350 --screenshot="$here/../../docs/report.png" "file://$work/page.html" 2>/dev/null
	exit
fi
cp "$readme" "$work/readme"
env -i "$build/fashim" env --format=markdown | replace options
env -i "$build/fashim" reasons --format=markdown | replace reasons
# What was measured last on a GPU; nothing to compare with before that.
# measured NAME PROGRAM: its table of the results kept under that name
measured()
{
	kept=$here/../gpu/reference/$1.json
	[ ! -f "$kept" ] || env -i "$(command -v python3)" "$here/../gpu/$2" --from "$kept" --markdown | replace "$1"
}
measured times times.py
measured bench bench
# The verdict on one kernel, without the names of the kernels that it was judged beside.
kept=$here/../gpu/reference/gate.json
[ ! -f "$kept" ] || {
	echo '```'
	echo '$ fashim bench --gate'
	env -i LC_ALL=C.UTF-8 "$build/fashim" bench --gate --from "$kept" | sed -E '/^VERDICT/,/^$/{s/ KERNELS$//; s/( [0-9.]+e-[0-9]+) .*/\1/}'
	echo '```'
	sed -n 's/^ *"commit": "\(.*\)",*$/\nKernels as of \1./p' "$kept"
} | replace gate
{
	echo '```'
	run replace 'fashim run -- python3 model.py'
	echo
	report replace
	echo
	run compare 'fashim run --mode compare -- python3 model.py'
	echo '```'
} | replace first
if [ "${2-}" = --update ]; then
	cat "$work/readme" >"$readme"
else
	diff -u "$readme" "$work/readme" || { echo "README.md is behind the sources: make readme"; exit 1; }
fi
