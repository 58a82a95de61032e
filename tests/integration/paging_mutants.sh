#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The stress of paged memory can fail: it is built with some of the protocol's deliberate faults
# (PT_MUTANT in include/weir/paging/pt_arch.h), and must notice each; those of memory order alone, under the
# thread sanitizer. Needs SOURCE_DIR and CC; clang for the sanitizer. Prints a line a test.
#
# Takes 14 s of a processor: a build and some tries for each fault.
#
# Labels: slow
# Timeout: 300
set -u

: "${SOURCE_DIR:?is the source tree}" "${CC:=cc}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$SOURCE_DIR" || exit 1
export TSAN_OPTIONS=halt_on_error=1
status=0

# The sanitizer's runtime wants fixed addresses free that randomisation may take.
fixed=
setarch -R true 2>/dev/null && fixed="setarch -R"

# build COMPILER MUTANT: the machine is in cpu_agent.c alone.
build()
{
	if [ ! -d "$dir/$1" ]; then
		mkdir -p "$dir/$1"
		for source in tests/property/test_paging_stress.c src/paging/cpu_pool.c \
			src/paging/cpu_check.c src/paging/view.c src/paging/walk.c src/base/*.c; do
			$compile -c "$source" -o "$dir/$1/$(basename "$source").o" || return 1
		done
	fi
	$compile -DPT_MUTANT="$2" src/paging/cpu_agent.c "$dir/$1"/*.o -o "$dir/run" -lcmocka \
		-lpthread -lm
}

# try COMPILER MUTANT: a few times, since a race need not be met at once, which mostly it is.
try()
{
	compile="$1 -std=c11 -D_GNU_SOURCE -O1 -w -I. -Iinclude"
	if ! build "$3" "$2" >"$dir/log" 2>&1; then
		echo "not ok - mutant $2 does not build: $(tail -n 1 "$dir/log")"
		status=1
		return
	fi
	result=0
	tries="0.05 0.05 0.05 0.2 0.2 0.2 0.2 0.2 0.2 0.2 0.2"
	[ "$2" -ne 0 ] || tries=0.05
	for seconds in $tries; do
		# shellcheck disable=SC2086 # words are meant to be split
		WEIR_PAGING_SECONDS=$seconds timeout 20 $fixed "$dir/run" >"$dir/log" 2>&1
		result=$?
		[ "$result" -eq 0 ] || break
	done
	if [ "$2" -eq 0 ] && [ "$result" -eq 0 ]; then
		echo "ok - $3, as it is"
	elif [ "$2" -ne 0 ] && [ "$result" -ne 0 ]; then
		echo "ok - $3, mutant $2: exit status $result"
	else
		echo "not ok - $3, mutant $2: exit status $result"
		status=1
	fi
}

for mutant in 0 3 4 7 10 12 16; do
	try "$CC" $mutant plain
done
if command -v clang >/dev/null; then
	for mutant in 0 1 13 14; do
		try "clang -g -fsanitize=thread" $mutant sanitized
	done
else
	echo "not ok - clang is missing: make deps installs it"
	status=1
fi
exit $status
