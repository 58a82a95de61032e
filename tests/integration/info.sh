#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir info` from the outside: what it prints, its exit status, and one line for each thing that
# can be wrong.
#
# Labels: sanitized-only
set -euo pipefail

weir=${WEIR:?the program}
source_dir=${SOURCE_DIR:?the source tree}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export WEIR_MACHINE_PATH=$source_dir/machines

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# expect_error TEXT ARGUMENT...: status 2, nothing on stdout, one line on stderr that has the text.
expect_error() {
	local text=$1 status=0
	shift
	"$weir" info "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
	[[ $status == 2 ]] || fail "info $*: status $status"
	[[ ! -s $scratch/out ]] || fail "info $*: prints to stdout"
	[[ $(wc -l <"$scratch/err") == 1 ]] || fail "info $*: not one line: $(cat "$scratch/err")"
	[[ $(cat "$scratch/err") == "weir: "*"$text"* ]] || fail "info $*: $(cat "$scratch/err")"
}

# The list names all machines, and the default.
list=$("$weir" info)
for file in "$source_dir"/machines/*.json; do
	name=$(basename "$file" .json)
	grep -q "^  $name " <<<"$list" || fail "the list lacks $name"
done
grep -q 'rtx5090 is the default' <<<"$list" || fail "the list names no default"
json=$("$weir" info --json)
grep -q '"default": "rtx5090"' <<<"$json" || fail "the list as JSON: no default"
machines=("$source_dir"/machines/*.json)
[[ $(grep -c '"about"' <<<"$json") == "${#machines[@]}" ]] || fail "the list as JSON lacks machines"

# Each machine prints, and its JSON is a description of its own.
for file in "$source_dir"/machines/*.json; do
	name=$(basename "$file" .json)
	"$weir" info --machine "$name" >"$scratch/text"
	grep -q '^mapping calls$' "$scratch/text" || fail "$name: no mapping calls"
	"$weir" info --machine "$name" --json >"$scratch/one.json"
	"$weir" info --machine "$scratch/one.json" --json >"$scratch/two.json"
	cmp "$scratch/one.json" "$scratch/two.json"
done
# expect_output TEXT ARGUMENT...: through a variable, since grep -q would close a pipe early.
expect_output() {
	local text=$1 out
	shift
	out=$("$weir" info "$@")
	grep -q -e "$text" <<<"$out" || fail "info $*: no $text"
}
expect_output '^port of host, 3 links busy$' --machine h200x4
expect_output '33.67 GB' --machine rtx5090
expect_output 'fitted .*fit_rates' --machine rtx5090 --origins
expect_output '--origins' --help

# The constants that a script computed are those that it computes.
if command -v python3 >/dev/null; then
	python3 "$source_dir/tools/fit_rates.py" --check >/dev/null || fail "fit_rates.py --check"
	python3 "$source_dir/tools/make_machines.py" --check || fail "make_machines.py --check"
else
	echo "python3 is missing: --check of fit_rates.py and make_machines.py is left out"
fi

# What can be wrong.
expect_error 'nosuch: no such machine; there are gv100x16-pcie3, ' --machine nosuch
expect_error 'there.json: No such file' --machine "$scratch/there.json"
expect_error 'Is a directory' --machine "$scratch/"
expect_error '--origins needs a machine' --origins
expect_error '--machine' --machine
expect_error '--mashine' --mashine laptop
expect_error 'extra' extra
head -c 500 "$source_dir/machines/laptop.json" >"$scratch/cut.json"
expect_error 'cut.json:' --machine "$scratch/cut.json"
head -c 5000 /dev/urandom >"$scratch/noise.json"
expect_error 'noise.json' --machine "$scratch/noise.json"
laptop=$source_dir/machines/laptop.json
sed 's/"value": 8000000000000,/"value": 0,/' "$laptop" >"$scratch/zero.json"
expect_error 'zero.json:22: device[0].ops_per_s.value: must be above 0' \
	--machine "$scratch/zero.json"
sed 's/"value": 4096,/"value": 5000,/' "$laptop" >"$scratch/odd.json"
expect_error 'odd.json:59: vmm.granularity_bytes: ' --machine "$scratch/odd.json"

# A broken description does not hide the others.
cp "$laptop" "$scratch/laptop.json"
export WEIR_MACHINE_PATH=$scratch
expect_output '^  noise .*unusable'
expect_output '^  laptop '

# A full disk is an error, not silence.
if [[ -w /dev/full ]]; then
	status=0
	"$weir" info --machine laptop >/dev/full 2>"$scratch/err" || status=$?
	[[ $status == 2 && $(wc -l <"$scratch/err") == 1 ]] || fail "full disk: status $status"
fi

echo passed
