#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The environment variables of weir(1) are those of `weir --help`, in the same words; those of
# weir-bench(1) are those of the options of all workloads; and the sources name no other. Needs WEIR
# and SOURCE_DIR.
set -euo pipefail

weir=${WEIR:?the program}
source_dir=${SOURCE_DIR:?the source tree}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# section FILE: what the manual page says of the environment, without markup.
section() {
	sed -n '/^# ENVIRONMENT$/,/^# EXIT\|^# FILES/p' "$source_dir/docs/man/$1" | tr -d '*'
}

# entries: a variable and what is said of it, a line each.
entries() {
	awk '!NF || /^ *WEIR_[A-Z_]+( |$)/ { if (line) print line; line = "" }
		/^ *WEIR_[A-Z_]+( |$)/ { line = $1; $1 = "" }
		line && NF && !/^[^ \t]/ { line = line " " $0 }
		END { if (line) print line }' | tr -s ' \t' ' '
}

"$weir" --help >help
sed -n '/^environment variables/,$p' help | entries >help.entries
section weir.1.scd | entries >page.entries
if ! [ -s help.entries ] || ! diff help.entries page.entries; then
	echo "not ok - weir(1) and weir --help (<) say the same of the environment"
	exit 1
fi
echo "ok - weir(1) and weir --help say the same of the environment"

for workload in $("$weir" bench --help | awk '/^  / { print $1 }'); do
	"$weir" bench "$workload" --help
done | grep -o '{WEIR_[A-Z_]*}' | tr -d '{}' | sort -u >options
section weir-bench.1.scd | grep -o 'WEIR_[A-Z_]\+' | sort -u >page.options
if ! [ -s options ] || ! diff options page.options; then
	echo "not ok - weir-bench(1) lists the variables of options (<)"
	exit 1
fi
echo "ok - weir-bench(1) lists the variables of options"

cut -d ' ' -f 1 help.entries | sort -u - options >known
(cd "$source_dir" && grep -rhoE '"WEIR_[A-Z_]+"' src cli machine managers workloads) |
	tr -d '"' | sort -u >named
if ! diff known named; then
	echo "not ok - the sources name the variables that are documented (<)"
	exit 1
fi
echo "ok - the sources name the variables that are documented"
