#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# dist.sh BUILD TARBALL WHEEL [DEB]: a release as its users have it. The tarball in an empty Debian (debootstrap; BARE names
# one that is there), without compilers, Python or a GPU: unpacked, and the demo run on the CPU stand-in of BUILD, from
# the tarball to a report in less than a minute; the Debian package there, too. The wheel in a fresh environment of
# Python. Root for the first part.
# Ends with "N passed, N failed".
set -u
build=$(cd "$1" && pwd)
tarball=$(realpath "$2")
wheel=$(realpath "$3")
deb=${4:+$(realpath "$4")}
work=$(mktemp -d)
passed=0
failed=0
trap 'rm -rf "$work"' EXIT

# judge NAME COMMAND...: succeeds it?
judge()
{
	local name=$1
	shift
	if "$@" >"$work/said" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "$name:"
		tail -20 "$work/said"
	fi
}

# demo ROOT COMMAND...: the command runs the demo, whose attention is replaced; a report tells it. ROOT: "" or a chroot.
demo()
{
	local root=$1
	shift
	in=(env)
	[ -z "$root" ] || in=(chroot "$root" env)
	"${in[@]}" FASHIM_BUDGET=0 FASHIM_MIN_SPEEDUP=0 LD_LIBRARY_PATH="$standin/simgpu" "$@" run -o "$log" -- "$standin/apps/sim/demo" &&
		"${in[@]}" "$@" report "$log" | grep -q '1: 1 replaced'
}

if [ "$(id -u)" = 0 ] && { [ -n "${BARE:-}" ] || command -v debootstrap >/dev/null; }; then
	bare=${BARE:-$work/bare}
	[ -x "$bare/bin/sh" ] || debootstrap --variant=minbase stable "$bare" >"$work/debootstrap" 2>&1 || tail -3 "$work/debootstrap"
	rm -rf "$bare/standin" "$bare/opt"/fashim* "$bare/log.jsonl"
	mkdir -p "$bare/standin/apps/sim"
	cp -r "$build/simgpu" "$bare/standin/"
	cp "$build/apps/sim/demo" "$build/apps/sim/demo.kernels" "$bare/standin/apps/sim/"
	cp "$tarball" "$bare/opt/"
	standin=/standin
	log=/log.jsonl
	mount -t proc proc "$bare/proc" && trap 'umount "$bare/proc"; rm -rf "$work"' EXIT
	begun=$SECONDS
	judge 'the tarball unpacks' chroot "$bare" tar -C /opt -xzf "/opt/${tarball##*/}"
	command=$(cd "$bare" && echo opt/fashim-*/bin/fashim)
	judge 'the command says its version' chroot "$bare" "/$command" --version
	judge 'the demo is replaced' demo "$bare" "/$command"
	judge 'within a minute' test $((SECONDS - begun)) -lt 60
	echo "from the tarball to a report: $((SECONDS - begun)) s; $(du -h "$tarball" | cut -f1) packed"
	if [ -n "$deb" ]; then
		rm -f "$bare/log.jsonl"
		cp "$deb" "$bare/opt/"
		judge 'the package installs' chroot "$bare" dpkg -i "/opt/${deb##*/}"
		judge 'its demo is replaced' demo "$bare" fashim
		judge 'it goes' chroot "$bare" dpkg --purge fashim
		judge 'without a trace' test ! -e "$bare/usr/bin/fashim" -a ! -e "$bare/usr/lib/fashim"
	fi
	rm -rf "$bare/standin" "$bare/opt"/fashim* "$bare/log.jsonl"
else
	echo 'no root, or no debootstrap: the tarball was not tried in an empty root'
fi
standin=$build
log=$work/log.jsonl
judge 'an environment' python3 -m venv "$work/venv"
judge 'the wheel installs' "$work/venv/bin/pip" install -q --no-index "$wheel"
judge 'the demo is replaced by the command' demo '' "$work/venv/bin/fashim"
rm -f "$log"
judge 'and by the module' demo '' "$work/venv/bin/python" -m fashim
echo 'print("run by", __import__("sys").executable)' >"$work/app.py"
judge 'a script is run by this Python' bash -c "'$work/venv/bin/python' -m fashim run '$work/app.py' | grep -q 'run by $work/venv'"
judge 'it goes without a trace' bash -c "'$work/venv/bin/pip' uninstall -qy fashim && ! ls -d '$work'/venv/lib/fashim '$work'/venv/bin/fashim 2>/dev/null | grep ."
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
