#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A signal at any moment of a run under weir: the exit status is 128 + its number, standard error
# has one line, a file that was there is as it was, a file that was not there is not, nothing
# partial stays, and what went to a pipe before is whole lines. So, too, while one simulated launch
# lasts for many seconds. Needs WEIR and SOURCE_DIR. Prints a line a test.
#
# Takes 8 s, most of which it sleeps: signals come at many moments.
#
# Labels: sanitized-only
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# Runs for ever, as far as this test goes: bytes move in every epoch.
args="bench gcn --machine laptop --nodes 6k --slice 4k --block-size 16KiB --data real
	--gpu-budget 15MB --epochs 1000000"

fail()
{
	echo "not ok - $1"
	[ -f err ] && sed 's|^|# |' err
	exit 1
}

# stopped PID NUMBER WHAT: it ends soon, with that signal's status and one line.
stopped()
{
	tries=0
	while kill -0 "$1" 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || {
			kill -s KILL "$1"
			fail "$3: still running after 10 seconds"
		}
		sleep 0.1
	done
	wait "$1"
	status=$?
	[ $status -eq $((128 + $2)) ] || fail "$3: exit status $status"
	[ "$(wc -l <err)" -eq 1 ] || fail "$3: not one line on standard error"
	grep -q '^weir: .*interrupted' err || fail "$3: no word of an interrupt"
	find . -name '*.tmp' | grep -q . && fail "$3: a partial file is left"
}

# start JSON MANAGERS: in the background, where a shell has commands ignore SIGINT: env undoes that.
start()
{
	# shellcheck disable=SC2086 # words are meant to be split
	env --default-signal=INT "$WEIR" $args --manager "$2" --json "$1" >out 2>err &
	pid=$!
	tries=0
	until ls ".$1".*.tmp >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "no partial file appears"
		sleep 0.1
	done
}

for signal in INT:2 TERM:15 HUP:1; do
	case $signal in
	INT:*) delays="0 0.13 0.5 1.1" ;;
	*) delays=0.3 ;;
	esac
	for delay in $delays; do
		echo old >kept.json
		start kept.json weir
		sleep "$delay"
		kill -s "${signal%:*}" $pid
		stopped $pid "${signal#*:}" "SIG${signal%:*} after $delay s"
		[ "$(cat kept.json)" = old ] || fail "SIG${signal%:*}: the file changed"
		[ -s out ] && fail "SIG${signal%:*}: a table on standard output"
	done
	echo "ok - SIG${signal%:*} after $delays s"
done

start new.json native,weir
sleep 0.3
kill -s INT $pid
stopped $pid 2 'no file before'
[ -e new.json ] && fail "an interrupted run leaves a file"
echo "ok - no file where there was none"

# What is out already when the signal comes, if anything, is whole lines.
# shellcheck disable=SC2086
env --default-signal=INT "$WEIR" $args --manager native,weir --json - >out 2>err &
pid=$!
sleep 1
kill -s INT $pid
stopped $pid 2 'lines to a pipe'
[ -s out ] && [ "$(tail -c 1 out | od -An -tx1 | tr -d ' ')" != 0a ] &&
	fail "half a line on standard output"
grep -vq '^{.*}$' out && fail "something beside JSON lines on standard output"
echo "ok - no half lines on standard output"

# A launch that uses rows at random, where the driver's model has memory for a part of them.
long="bench gcn --machine rtx5090 --manager uvm --nodes 1M --slice 1M --gpu-budget 10%"

# long_start: in the background, and within such a launch.
long_start()
{
	# shellcheck disable=SC2086
	env --default-signal=INT "$WEIR" $long --json long.json >out 2>err &
	pid=$!
	sleep 1
	kill -0 $pid 2>/dev/null || fail "the long run has ended"
}

long_start
kill -s TERM $pid
stopped $pid 15 'a long launch'
[ -e long.json ] && fail "an interrupted run leaves a file"
echo "ok - within a long launch"

# Both are there when it goes on; which of the threads takes which first is the system's choice.
long_start
kill -s STOP $pid
kill -s INT $pid
kill -s TERM $pid
kill -s CONT $pid
wait $pid
status=$?
[ $status -eq 143 ] || [ $status -eq 130 ] || fail "two signals: exit status $status"
grep -q '^weir: .*interrupted twice' err || fail "two signals: no word of it"
echo "ok - two signals at once"
