#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $programs are dropin.sh's
#
# `weir run --learn` and `--kernels`, on the driver without a GPU: exactly the kernels are found open
# that use what their launches do not name, each by its name, its code and the places of its
# pointers, and the program is started again until it passes; with what was found it computes the
# same with a third of its memory. What does not hold any more, what waits, what is damaged and what
# cannot be is said. Needs WEIR, BUILD_DIR, SOURCE_DIR, FAKECUDA_DRIVER. Prints a line a test.
# WEIR_TEST_LONG: more random programs, each with both of --when, and more GPU memory for all
# programs, too.
#
# A library cannot be put before a sanitizer's, so this is for builds without one.
#
# Timeout: 300
# Long: yes
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
without_sanitizer
export FAKECUDA_HBM_BYTES=67108864 FAKECUDA_REPORT="$dir/report"
hidden=$programs/hidden
streams=$programs/streams
program=$hidden

# plain PROGRAM ARGS...: what it prints by itself, in so many $lines.
plain()
{
	timeout 30 "$@" >plain || fail "$* fails by itself" plain
	lines=$(wc -l <plain)
}

# ends STATUS ARGS...: `weir run` ends so.
ends()
{
	status=$1
	shift
	: >report
	timeout 60 "$WEIR" run "$@" >out 2>err
	rc=$?
	[ "$rc" = "$status" ] || fail "run $* exits with $rc, not $status" out err
}

# What the last run printed is right, and no memory moved beneath it.
right()
{
	tail -n "$lines" out | cmp -s plain - || fail "$1 prints something else" plain out err
	awk '!/ races 0 unmaps 0 .* problem none$/ { wrong = 1 } END { exit wrong || !NR }' report ||
		fail "$1: something went wrong in a run" report
}

# kernels FILE STATE: the names of those in that state, each place of pointers counted, in one line.
# One awk sorts them: it is called often, and starts of processes are what this test takes.
kernels()
{
	awk -F '\t' -v state="$2" '
		$1 == state {
			for (i = nr++; i && name[i - 1] > $4; i--)
				name[i] = name[i - 1]
			name[i] = $4
		}
		END { for (i = 0; i < nr; i++) printf "%s ", name[i] }' "$1"
}

# learns NAME RUNS OPEN CLOSED [ARGS...]: from nothing, in so many runs, with less GPU memory than it
# allocates, each sixth time with more, too. FILE is then NAME.
turn=0
learns()
{
	name=$1
	runs=$2
	open=$3
	closed=$4
	shift 4
	plain "$program" "$name"
	turn=$((turn + 1))
	budgets=512KiB
	[ $((turn % 6)) != 1 ] && [ -z "${WEIR_TEST_LONG-}" ] || budgets="60MiB 512KiB"
	for budget in $budgets; do
		rm -f "$name"
		ends 0 --learn "$name" --gpu-budget "$budget" "$@" -- "$program" "$name"
		right "$name"
		has err "^weir: run: after $runs runs, $name has "
		[ "$(grep -c 'its kernel is open from here on: ' err)" = $((runs - 1)) ] ||
			fail "$name: not a line for each fault" err
		[ "$(kernels "$name" open)$(kernels "$name" waits)" = "$open" ] ||
			fail "$name: others are open than '$open'" "$name" err
		[ "$(kernels "$name" closed)" = "$closed" ] ||
			fail "$name: others are closed than '$closed'" "$name" err
	done
}

# uses NAME CLOSED OPEN [ARGS...]: with what was learnt, so many launches are closed and open.
uses()
{
	name=$1
	closed=$2
	open=$3
	shift 3
	ends 0 --kernels "$name" --gpu-budget 512KiB --explain --stats stats.json -- \
		"$program" "$name" "$@"
	right "--kernels $name"
	has stats.json "\"mode\": \"kernels\".*\"launches_closed\": $closed, \"launches_open\": $open,"
}

learns copied 2 'gather ' 'fill '
has err '^weir: launch 25, whose parameters name 192 bytes at 0, 192 bytes at 8, used an address'
uses copied 96 3
has err '^weir: kernel gather may use any allocation: used an address'
learns copied-on 2 'gather ' 'fill '
uses copied-on 96 3
learns stored 2 'gather ' 'addresses fill '
uses stored 144 3
learns variable 2 'load_table ' 'fill '
uses variable 144 5
learns list 2 'list_sum ' 'fill '
uses list 96 3
learns small 2 'gather ' 'fill '
uses small 24 1
learns several 4 'gather list_sum load_table ' 'fill '
uses several 288 11
learns stored-large 2 'gather ' 'addresses fill '
uses stored-large 144 3
learns stored-late 2 'list_sum ' 'addresses fill '
uses stored-late 43 13
program=$streams
learns side 1 '' 'add copy fill '
uses side 144 0
learns other-context 1 '' 'add copy copy fill '
uses other-context 280 0
learns no-events 1 '' 'add fill '
uses no-events 136 0
program=$hidden
echo "ok - kernels that hide pointers are found, and what is found is used"

# Textures, and tensor maps whose addresses nobody can read, show nothing at all.
program=$programs/textures
learns linear 2 'read_texture ' 'fill '
uses linear 120 4
learns picture 2 'read_texture ' 'fill '
uses picture 96 3
export FAKECUDA_HIDE_MAPS=1
learns maps 2 'read_map ' 'fill '
uses maps 216 8
unset FAKECUDA_HIDE_MAPS
learns maps 1 '' 'fill read_map '
program=$hidden
echo "ok - textures and tensor maps are found"

# By the places of its pointers one kernel is two: one is closed, the other is not.
learns places 2 'gather ' 'fill gather '
uses places 99 3
awk -F '\t' '$4 == "gather" { print $3 }' places | sort -u >found
[ "$(wc -l <found)" = 2 ] || fail "the places of gather are not two" places
grep -v '^closed	.*	gather	' places >less
ends 0 --kernels less --gpu-budget 512KiB --stats stats.json --explain -- "$hidden" places
right "--kernels less"
has stats.json '"launches_closed": 96, "launches_open": 6,'
has err 'kernel gather may use any allocation: the file of --kernels does not have its code'
echo "ok - places count"

# Other code of the same kernels is not what was learnt: all may use anything.
plain "$hidden" copied changed
uses copied 0 99 changed
has err '^weir: kernel fill may use any allocation: the file of --kernels does not have its code'
cp copied both
ends 0 --learn both --gpu-budget 512KiB -- "$hidden" copied changed
right "learning changed code"
[ "$(kernels both open)$(kernels both closed)" = 'gather gather fill fill ' ] ||
	fail "a file is not extended by changed code" both
cp both copied
plain "$hidden" copied
uses copied 96 3
echo "ok - code counts"

# A file is extended; what was closed adds up; what was learnt is not found out again.
cp list extended
ends 0 --learn extended --gpu-budget 512KiB -- "$hidden" copied
right "extending"
has err 'after 2 runs'
[ "$(kernels extended open)$(kernels extended closed)" = 'gather list_sum fill ' ] ||
	fail "a file is not extended" extended
has extended '	fill	192 launches$'
ends 0 --learn extended --gpu-budget 512KiB -- "$hidden" several
has err 'after 2 runs' ': load_table$'
# What was closed becomes open with the first launch that is not.
awk -F '\t' -v OFS='\t' '$4 == "gather" { $1 = "closed"; $5 = "9 launches" } { print }' stored >wrong
cp wrong mended
ends 0 --learn mended --gpu-budget 512KiB -- "$hidden" stored
has err 'after 2 runs'
has mended '^open	.*	gather	'
echo "ok - files are extended"

# A file that does not hold: right, or a fault that is explained.
plain "$hidden" stored
if timeout 30 "$WEIR" run --kernels wrong --gpu-budget 512KiB -- "$hidden" stored >out 2>err; then
	fail "gather finds what is not mapped" out err
fi
has err '^weir: a kernel used an address that is not mapped.*/wrong does not hold any more: learn' \
	'^weir: +launched last but 0: gather$' '^hidden: .*: 700$'
# So with one that was learnt where a kernel followed no pointer, which it does later.
ends 0 --learn one-mode --gpu-budget 512KiB -- "$hidden" closed-mode
[ "$(kernels one-mode open)$(kernels one-mode closed)" = 'addresses addresses fill list_sum ' ] ||
	fail "closed-mode: others are known" one-mode
plain "$hidden" both-modes
if timeout 30 "$WEIR" run --kernels one-mode --gpu-budget 512KiB -- "$hidden" both-modes >out \
	2>err; then
	cmp -s plain out || fail "both-modes differs, and nothing says so" plain out err
else
	has err '^weir: a kernel used an address .*/one-mode does not hold any more: learn' \
		'^weir: +launched last but 0: list_sum$'
fi
ends 0 --learn one-mode --gpu-budget 512KiB -- "$hidden" both-modes
has one-mode '^open	.*	list_sum	'
ends 0 --kernels one-mode --gpu-budget 512KiB -- "$hidden" both-modes
right "--kernels with both modes learnt"
echo "ok - a file that does not hold is named"

# Kernels that wait for later ones are not waited for, once that is known.
program=$streams
for name in waiting waiting-chain waiting-thread; do
	learns "$name" 2 'wait_flag ' 'fill ' --hold 300
	has err '^weir: launch 25, .* did not end within 300 ms; its kernel is open .*: wait_flag$' \
		'^weir: nothing is learnt from here on, .*not to be waited for: wait_flag$'
	case $name in
	waiting-chain) uses "$name" 120 18 ;;
	*) uses "$name" 96 6 ;;
	esac
done
for which in all thread; do
	plain "$programs/copies" $which
	rm -f copies
	ends 0 --learn copies --gpu-budget 1MiB -- "$programs/copies" $which
	right "copies $which"
	has err 'nothing is learnt from here on, .*: a stream waits for a word in memory$' 'after 1 runs'
	[ "$(kernels copies closed)" = 'fill ' ] || fail "copies: not fill alone" copies
done
echo "ok - programs that wait"

# Several threads and streams, each way to the driver.
many=
for ways in "--copied" "--threads 3 --reach per-thread --async --streams 0" "--streams 0 --ask" \
	"--threads 2 --reach proc --streams 3 --async"; do
	# shellcheck disable=SC2086 # words
	set -- "$programs/program" --arrays 6 --bytes 150000 --passes 3 $ways
	plain "$@"
	budgets=512KiB
	[ -n "$many" ] && [ -z "${WEIR_TEST_LONG-}" ] || budgets="60MiB 512KiB"
	for budget in $budgets; do
		ends 0 --learn many$many --gpu-budget "$budget" -- "$@"
		right "program $ways"
		[ "$(kernels many$many open)" = 'gather load_table ' ] ||
			fail "program $ways: others are open" many$many err
		ends 0 --kernels many$many --gpu-budget "$budget" -- "$@"
		right "--kernels, program $ways"
		many=$many-
	done
done
echo "ok - threads and streams"

# Whoever ends the process, what ended it is known.
plain "$hidden" watched
for time in 1 ${WEIR_TEST_LONG:+2 3 4 5 6 7 8}; do
	rm -f watched
	ends 0 --learn watched --gpu-budget 512KiB -- "$hidden" watched
	right "watched, run $time"
	[ "$(kernels watched open)" = 'gather ' ] || fail "watched: others are open" watched err
	has err 'after 2 runs' 'its kernel is open from here on: gather$'
done
echo "ok - a process that another thread ends"

# Processes at once: what one is in the midst of when another one's fault ends it is not held
# against its kernel. It waits for a later launch, which is found out by itself.
plain "$hidden" copied
mv plain plain.copied
plain "$streams" waiting
mv plain plain.waiting
export hidden streams
# shellcheck disable=SC2016 # the shell that is run expands it
ends 0 --learn at-once --hold 1000 --gpu-budget 512KiB -- sh -c '"$streams" waiting >out.waiting &
	"$hidden" copied >out.copied || { kill -9 $!; exit 1; }; wait $!'
has err 'after 3 runs' '(gather|wait_flag)$'
if grep 'ran as the program ended' err; then
	fail "what another process was in the midst of counts" err
fi
[ "$(kernels at-once open)$(kernels at-once waits)" = 'gather wait_flag ' ] ||
	fail "processes at once: others are open" at-once err
for name in copied waiting; do
	cmp -s out.$name plain.$name || fail "$name prints something else beside another" out.$name
done
echo "ok - processes at once"

# A file that is another one's name stays so.
cp copied real
ln -s real link
ends 0 --learn link --gpu-budget 512KiB -- "$hidden" list
[ -L link ] || fail "a link is replaced" real err
has real '	list_sum	used an address'
echo "ok - links"

# The end of learning by a number of launches: what comes then is not looked at, and runs.
plain "$hidden" several
ends 0 --learn few --learn-launches 20 --gpu-budget 512KiB -- "$hidden" several
right "--learn-launches"
has err 'after 1 runs, few has 1 closed and 0 open' 'all memory is mapped: as many launches as'
has few '	fill	20 launches$'
# By itself the program fills what memory there is, which may be as little.
export FAKECUDA_HBM_BYTES=8388608
plain "$streams" full
export FAKECUDA_HBM_BYTES=67108864
for launches in 100 1000000; do
	rm -f few
	ends 0 --learn few --learn-launches $launches --gpu-budget 1MiB --host-budget 2MiB -- \
		"$streams" full
	right "full with $launches launches"
	has err 'both budgets are full'
	[ "$(kernels few open)$(kernels few closed)" = 'copy fill ' ] || [ $launches = 100 ] ||
		fail "full: others are known" few
done
plain "$hidden" small
rm -f few
ends 0 --learn few --gpu-budget 512KiB --host-budget 2MiB -- "$hidden" small
right "small without room"
has err '^weir: there is little room: small allocations share blocks from here on'
echo "ok - the end of learning"

# Random programs: graphs, copies of all kinds, cooperative launches. Of one in which learning ended
# early, what kernels did later was not seen, which a list in one allocation is an example of.
random=$programs/random
seeds=8 complete=0 least=2
[ -z "${WEIR_TEST_LONG-}" ] || seeds=150 least=25
for seed in $(seq $seeds); do
	set -- "$random" --seed "$seed" --ops 60 --bytes 786432
	rm -f learnt
	FAKECUDA_GRANULARITY=16384 ends 0 --learn learnt --hold 300 --gpu-budget 384KiB -- "$@"
	if grep -q 'nothing is learnt from here on' err; then
		continue
	fi
	complete=$((complete + 1))
	take_modes "always oom" ""
	for when in $modes; do
		FAKECUDA_GRANULARITY=16384 ends 0 --kernels learnt --when "$when" \
			--gpu-budget 256KiB -- "$@"
		if grep -v ' races 0 unmaps 0 .* problem none$' report; then
			fail "random program $seed, --when $when: not in order" report
		fi
	done
done
[ "$complete" -ge $least ] || fail "of only $complete random programs all was learnt" err
echo "ok - random programs"

# A program that fails by itself ends it, with its own status; what was seen is kept.
rm -f own
ends 7 --learn own -- sh -c "\"$streams\" side >/dev/null; exit 7"
has err '^weir: run: --learn: the program ended with status 7, and not by a kernel'
[ "$(kernels own closed)" = 'add copy fill ' ] || fail "what a failing program did is not kept" own
# shellcheck disable=SC2016 # the shell that is run expands it
ends 143 --learn own -- sh -c 'kill -TERM $$'
has err '^weir: run: --learn: the program was ended by signal 15'
ends 0 --learn own -- sh -c "\"$hidden\" copied >/dev/null || \"$hidden\" list"
has err 'own has 3 closed and 2 open$'
ends 0 --learn own --quiet --gpu-budget 512KiB -- "$hidden" variable
[ ! -s err ] || fail "--quiet is not quiet" err
echo "ok - programs that end by themselves"

sed 's/^closed	\(.*\)launches$/closed	\1times/' copied >damaged
cp damaged before
refused '^weir: run: --learn damaged: line [0-9]+: it does not end' --learn damaged -- "$hidden" list
refused '^weir: run: --kernels damaged: line [0-9]+: it does' --kernels damaged -- "$hidden" list
cmp -s damaged before || fail "a damaged file is written to" damaged
head -c 200 copied >part
refused '^weir: run: --kernels part: line [0-9]+: it is cut off' --kernels part -- "$hidden" list
: >empty
refused '^weir: run: --learn empty: line 1: the file is empty' --learn empty -- "$hidden" list
refused '^weir: run: --kernels none: No such file' --kernels none -- "$hidden" list
refused '^weir: run: --learn nowhere/file: No such' --learn nowhere/file -- "$hidden" list
refused '^weir: run: --learn /dev/null: no regular file' --learn /dev/null -- "$hidden" list
refused 'leave out --kernels' --learn k --kernels copied -- "$hidden" list
refused 'leave out --mode' --learn k --mode fast -- "$hidden" list
refused 'leave out --when' --learn k --when oom -- "$hidden" list
refused 'leave out --trace' --learn k --trace t -- "$hidden" list
refused 'is for --mode fast' --kernels copied --mode safe -- "$hidden" list
refused 'is for --learn' --learn-launches 5 -- "$hidden" list
refused 'write a number above zero' --learn k --learn-launches 0 -- "$hidden" list
refused 'write off, fixed, safe or fast' --mode learn -- "$hidden" list
[ ! -e k ] || fail "what is refused leaves a file" k
plain "$hidden" copied
ends 0 --kernels copied --mode fast --gpu-budget 512KiB -- "$hidden" copied
right "--kernels with --mode fast"
ends 0 --kernels copied --when oom --gpu-budget 512KiB --stats stats.json -- "$hidden" copied
right "--kernels with --when oom"
has stats.json '"when": "oom", "switched": true'
# What processes leave that are killed as they write: a child as it ends, and weir as it begins.
rm -f report
ends 153 --learn killed --gpu-budget 512KiB --stats killed.json -- "$hidden" killed
has err '^weir: run: --learn: the program was ended by signal 25'
if ls killed.*.part 2>/dev/null; then
	fail "what a killed program was writing is left" err
fi
sh -c 'ulimit -f 0; exec "$@"' - "$WEIR" run --learn killed -- "$hidden" list 2>/dev/null &
wait $!
ls killed.*.part >/dev/null || fail "weir was not killed while it wrote"
cp killed killed.1
ends 0 --learn killed --gpu-budget 512KiB --stats killed.json -- "$hidden" list
if ls killed.*.part 2>/dev/null; then
	fail "what a killed weir was writing is left" err
fi
[ -e killed.1 ] || fail "a copy of the user's is gone" err
rm killed.1
[ "$(wc -l <killed.json)" = 1 ] || fail "not the statistics of the last run alone" killed.json
ls -a >found
if grep -E '\.(part|[0-9]+)$' found; then
	fail "a part of a file is left" found
fi
echo "ok - what is damaged, and what cannot be"
