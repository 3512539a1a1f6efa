#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD [--update]: golden tests of the command. Each case is one line of cases_*.sh: a name, the exit
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

for cases in run report logs tools; do
	# shellcheck source=/dev/null
	. "$here/cases_$cases.sh"
done

echo "$passed passed, $failed failed"
[ $failed = 0 ]
