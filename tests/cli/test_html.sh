#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_html.sh BUILD: the HTML report, read by parsers and, where there is one, opened in a real browser
# without a screen (test_html.py). Prints TAP.
command -v python3 >/dev/null || { echo "ok 1 # SKIP no python3 to read the pages with"; exit 0; }
exec python3 "$(dirname "$0")/test_html.py" "$1"
