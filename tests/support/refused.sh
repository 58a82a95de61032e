# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # $program and $dir are the test's
#
# Sourced, with environment.sh, by tests of benchmarks that say what is wrong.

# refused STATUS TEXT ARGUMENT...: $program ends with this status, prints nothing, and the last line
# on stderr is its own and has the text.
refused() {
	local status=0 wanted=$1 text=$2
	shift 2
	"$program" "$@" >"$dir/out" 2>"$dir/err" || status=$?
	[ $status -eq "$wanted" ] || fail "$*: status $status" "$dir/err"
	[ ! -s "$dir/out" ] || fail "$*: a result" "$dir/out"
	[[ $(tail -n 1 "$dir/err") == "${program##*/}: "*"$text"* ]] || fail "$*: no '$text'" "$dir/err"
}
