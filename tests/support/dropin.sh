# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034 # what is set here is for the test
#
# Sourced by the tests of `weir run` (tests/integration/dropin*.sh), which start programs on the driver
# without a GPU. Needs WEIR, BUILD_DIR, SOURCE_DIR and FAKECUDA_DRIVER. Goes to $dir, a folder of the
# test's own, which goes with it; $programs is where tests/dropin is built.
: "${WEIR:?is the program to test}" "${FAKECUDA_DRIVER:?is the folder of a driver}"
programs=${BUILD_DIR:?is the build folder}/tests/dropin
program=$programs/program
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"
cd "$dir" || exit 1
export XDG_CACHE_HOME="$dir/cache" LD_LIBRARY_PATH="$FAKECUDA_DRIVER"

# without_sanitizer: the test ends well in a build with one: a library cannot be put before its own.
without_sanitizer()
{
	if [ -n "${WEIR_SANITIZE-}" ]; then
		echo "ok - skipped: a build with a sanitizer has no library for programs"
		exit 0
	fi
}

# take_modes MOST OTHERS: the modes in which the next one of many alike programs runs go to $modes:
# the next one of those that have most to do with what the program does, and each fourth time one of
# the others, too, in turn; all with WEIR_TEST_LONG. With $turn set back to 0, the first is next.
turn=0
take_modes()
{
	turn=$((turn + 1))
	modes="$2 $1"
	[ -z "${WEIR_TEST_LONG-}" ] || return 0
	others=$2
	# shellcheck disable=SC2086 # words
	set -- $1
	shift $(((turn - 1) % $#))
	modes=$1
	if [ -n "$others" ] && [ $((turn % 4)) = 1 ]; then
		# shellcheck disable=SC2086 # words
		set -- $others
		shift $((turn / 4 % $#))
		modes="$1 $modes"
	fi
}

# same MODE BUDGET PROGRAM ARGS...: under weir, looked at from the begin, with $options, it prints what is in plain, and nothing
# went wrong. The driver writes its report to the file of that name.
options=
same()
{
	mode=$1
	budget=$2
	shift 2
	case "$mode $options" in
	fixed* | *--when*) when= ;;
	*) when='--when always' ;;
	esac
	: >report
	# shellcheck disable=SC2086 # words
	timeout 60 "$WEIR" run --mode "$mode" $when $options --gpu-budget "$budget" --stats stats.json -- \
		"$@" >out 2>err || fail "$* exits with $? in mode $mode with $budget" out err report
	cmp -s plain out || fail "$* differs in mode $mode with $budget" plain out err report
	has report ' races 0 unmaps 0 .* problem none$'
	has stats.json "\"mode\": \"$mode\""
}

# right_or_explained BUDGET WHEN PROGRAM ARGS...: in mode fast it prints what is in plain, or ends with a
# fault, which names the kernels launched last; what came before that was right.
right_or_explained()
{
	budget=$1
	when=$2
	shift 2
	what="$* in mode fast with $budget, --when $when,"
	timeout 60 "$WEIR" run --mode fast --when "$when" --gpu-budget "$budget" -- "$@" >out 2>err
	rc=$?
	if [ $rc = 0 ]; then
		cmp -s plain out || fail "$what differs, and nothing says so" plain out err
	else
		[ $rc = 1 ] || fail "$what exits with $rc" out err
		has err '^weir: a kernel used an address that is not mapped.*--mode safe$' \
			'^weir: +launched last but 0: (gather|list_sum|load_table)$' '^hidden: .*: 700$'
		lines=$(wc -l <out)
		head -n "$lines" plain | cmp -s - out || fail "$what differs before the fault" plain out
	fi
}

# refused PATTERN OPTIONS...: `weir run` ends with status 2 and one line.
refused()
{
	pattern=$1
	shift
	"$WEIR" run "$@" >out 2>err
	[ $? = 2 ] || fail "run $* is not refused" out err
	has err "$pattern"
	[ "$(wc -l <err)" = 1 ] || fail "run $* says more than a line" err
}
