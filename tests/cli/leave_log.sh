#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# leave_log.sh SAMPLE [NUMBER]: does what the shim does in a program: leaves SAMPLE under the name that
# FASHIM_OUT gives, as a log of this process and its rank. With NUMBER that goes before the extension.
log=$(printf '%s' "$FASHIM_OUT" | sed "s/%e/app/; s/%p/$$/; s/%%/%/g")
[ -z "${2-}" ] || log=$(printf '%s' "$log" | sed "s/\.jsonl\$/.$2.jsonl/")
sed "1s/\"pid\":[0-9]*/\"pid\":$$/; 1s/\"rank\":null/\"rank\":${RANK:-null}/" "$1" >"$log"
[ ! -e "$1.live" ] || cp "$1.live" "$log.live"
echo "output of the program"
