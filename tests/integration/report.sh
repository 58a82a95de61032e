#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir report` as its users run it: pages of real runs and of made-up ones, held against the data by
# report_page.py; what it refuses; and that nothing is left behind. Needs WEIR and SOURCE_DIR. Prints
# a line a test.
#
# Takes 10 s of a processor: it makes the results first that it draws.
#
# Labels: slow
# Timeout: 300
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
mkdir temporary
export TMPDIR="$dir/temporary"

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

fail()
{
	echo "not ok - $1"
	[ -f err ] && sed 's|^|# |' err
	exit 1
}

empty()
{
	[ -z "$(ls -A temporary)" ] || fail "a temporary file is left: $(ls temporary)"
}

# page NAME RESULTS...: NAME.html of them, for held(). Neither may change before that.
page()
{
	name=$1
	shift
	"$WEIR" report "$@" -o "$name.html" >out 2>err || fail "report $* exits with $?"
	[ -s err ] && fail "report $* says something on standard error"
	grep -Eq "^$name.html: a page of [0-9]+ results?, with [0-9]+ charts?$" out ||
		fail "report $* does not say where the page is"
	empty
	echo "$name.html $*" >>pages
}

# held: each page of page() is held against its results.
held()
{
	python3 - "$SOURCE_DIR/tests/integration/report_page.py" pages <<'END' >out 2>err || {
import runpy
import sys

program = sys.argv[1]
with open(sys.argv[2], encoding="utf-8") as file:
    pages = [line.split() for line in file]
for page in pages:
    sys.argv = [program, *page]
    print("#", *page, flush=True)
    runpy.run_path(program, run_name="__main__")
END
		cat out
		fail "the last page is not as it should be"
	}
	[ "$(grep -c '^ok - ' out)" -eq "$(wc -l <pages)" ] || fail "not each page is held against results"
}

lacks()
{
	file=$1
	shift
	for pattern in "$@"; do
		grep -Eq -- "$pattern" "$file" && fail "/$pattern/ in $file"
	done
}

bench()
{
	"$WEIR" bench gcn "$@" >out 2>err || fail "bench gcn $* exits with $?"
}

# ---------------------------------------------------------------- real runs

bench --nodes 1M,5M,8M,12M --manager native,malloc,zerocopy,weir --json plain.json
page plain plain.json
has plain.html '<title>gcn on a simulated rtx5090 - weir report</title>' \
	'<h1>gcn on a simulated rtx5090: where the time goes</h1>' 'Simulated times depend on no date' \
	'<pre>weir bench gcn --machine rtx5090 --manager native,malloc,zerocopy,weir --nodes 1M,5M,8M,12M</pre>' \
	'id="1-epochs-wide-t"' 'id="1-time-narrow-t"' 'id="1-traffic-wide-d"' \
	'native and malloc get through up to 5M nodes .* and run out of memory at the next size tried, 8M' \
	'Out of memory: native and malloc\.' '>out of memory at this size<' '<strong>12M nodes \(1.64 times' \
	'gcn on a simulated rtx5090, 33.67 GB of GPU memory'
"$WEIR" report plain.json --output=again.html || fail "report exits with $?"
cmp -s plain.html again.html || fail "the page differs between two runs"
"$WEIR" report - -o - <plain.json >again.html 2>err || fail "report - exits with $?"
cmp -s plain.html again.html || fail "the page differs through pipes"
echo "ok - a real run; the same bytes again, and through pipes"

bench --nodes 2M --gpu-budget 80% --manager weir --json sweep-80.json
bench --nodes 2M --gpu-budget 50% --manager weir --json sweep-50.json
page sweep sweep-80.json sweep-50.json
has sweep.html '<title id="1-epochs-wide-t"' '\(the work needs 2.00 times that\)'
lacks sweep.html 'id="set-2"'
echo "ok - one size with several budgets is one set"

bench --nodes 8M --manager weir --json one.json
page one one.json
has one.html 'id="1-time-wide-t"'
lacks one.html 'id="1-epochs-wide-t"' ', the next,' ', the slowest,' 'Out of memory' 'Not run'
page two one.json plain.json
grep -v '"nodes":12000000.*"manager":"zerocopy"' plain.json >part.json
page part part.json
has part.html 'zerocopy gets through up to 8M nodes .*, the last size at which it was run' \
	'Out of memory: native and malloc. Not run at this size: zerocopy\.' '>not run<'
echo "ok - one size, one manager: no curve of one point, no comparison with nothing"

bench --nodes 8M --manager native,malloc --json none.json
page none none.json
has none.html 'No run got through' 'out of memory'
lacks none.html '<svg class="(wide|narrow)"' ' takes? '
echo "ok - nothing that got through: a table and no chart"

"$WEIR" bench pagein --touch 50% --manager native,uvm+prefetch+max,weir-paged+page --json rows.json \
	>out 2>err || fail "bench pagein exits with $?"
page rows rows.json
has rows.html 'pagein on a simulated rtx5090' '<text>[0-9]{4} GB/s</text>'
echo "ok - a row for each result, with figures of more than three digits"

for more in '' '--policy lru --policy whole'; do
	# shellcheck disable=SC2086 # two options, or none
	"$WEIR" bench gcn --machine rtx5090 --nodes 150k,300k --gpu-budget 4GB --epochs 1 \
		--manager uvm${more:+,uvm+prefetch} $more --json policies.json >out 2>err ||
		fail "bench with policies exits with $?" err
	cat policies.json >>policy.json
done
page policy policy.json
has policy.html '>What policies bring</h3>' '>time of an epoch over that in memory<' \
	'>no policy<' '>whole<' '>300k nodes<' 'no choice of victims saves more' \
	'<strong>uvm</strong>: [0-9.]+ times as long as in memory at 300k nodes .*, with whole [0-9.]+ times'
"$WEIR" report policy.json -o policy.html --svg drawings >out 2>err ||
	fail "report --svg exits with $?" err
has out '^drawings: [0-9]+ drawings$'
python3 -c 'import sys, xml.dom.minidom as m; [m.parse(name) for name in sys.argv[1:]]' \
	drawings/*.svg 2>err || fail "a drawing is no XML"
has drawings/1-policies.svg '^<svg .*viewBox="-12 -12 ' 'prefers-color-scheme:dark' 'var.--eviction.'
# Seventeen managers: curves and bars of each would be too many.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
	sed "s/\"manager\":\"uvm policy=lru\"/\"manager\":\"uvm policy=lru:n=$i\"/; /policy=whole/d" \
		policies.json
done | sort -u | cat policy.json - >many.json
page many many.json
has many.html '>What policies bring</h3>'
lacks many.html '>Where the time goes</h3>' '>Time of an epoch</h3>'
echo "ok - policies beside each other, and drawings"

WEIR_TRACE=gcn.trace "$WEIR" bench gcn --nodes 100k --block-size 2MiB --epochs 1 --manager weir \
	>out 2>err || fail "a traced bench exits with $?"
"$WEIR" replay gcn.trace --manager native,zerocopy,weir --gpu-budget 25%,50%,100%,150% --oracle \
	--json replay.json >out 2>err || fail "replay exits with $?"
page replay replay.json
has replay.html '<title>replay on a simulated rtx5090' '>How much memory is enough</h3>' \
	'replay on a simulated rtx5090, gcn.trace' '>GPU memory, GB<' '>lower bound<' \
	'<strong>Enough for weir</strong>: [0-9.]+ GB' 'the least that was tried' \
	'>out of memory with this budget<' '<pre>weir replay gcn.trace --manager native,zerocopy,weir'
has replay.html '>Copies, and the least that would have done</h3>' \
	'<strong>weir</strong>: at [0-9.]+ GB of GPU memory .* times the least; nowhere is it more'
lacks replay.html ' nodes' 'id="set-2"'
page beside replay.json plain.json
echo "ok - a trace that was replayed, by budget"

# ---------------------------------------------------------------- what later versions add

# with PARTS NAME: the results of weir under another manager's name, with parts of the time.
with()
{
	sed -n "s/\"manager\":\"weir\"/\"manager\":\"$2\"/
		s/\"time_s\":{[^}]*},//
		s/\"faults\":0,\"first_touches\":0/\"time_s\":{$1},\"faults\":1300000,\"first_touches\":200000/p" \
		plain.json | grep -F "\"manager\":\"$2\""
}
{
	cat plain.json
	with '"compute":1,"in_place":0,"allocation":0,"first_touch":1,"demand":3,"eviction":5,"other":0' \
		uvm+prefetch
	with '"compute":1,"in_place":null,"allocation":0.25,"first_touch":7,"demand":0,"magic":0.75' uvm
} >parts.json
page parts parts.json
has parts.html '<strong>uvm\+prefetch</strong>: 50 % of [0-9.]+ s on eviction and 30 % on copies on demand' \
	'<strong>uvm</strong>: 78 % of [0-9.]+ s on first touches and 11 % on computing' \
	'Page faults of the whole run there: uvm 1.3M \(first touches: 200k\), uvm\+prefetch 1.3M' \
	'fill = .var\(--first-touch\)' '<th scope="col">faults'
lacks plain.html '<th scope="col">faults' 'Page faults'
echo "ok - parts of the time, faults; unknown parts count as other"

sed 's/"machine":"rtx5090"/"machine":"cuda"/
	s/"workload"/"date":"2026-01-02T03:04:05Z","workload"/
	s/"epoch_median_s":\([0-9]*\)\./"epoch_median_s":1\1./' plain.json >cuda.json
page both plain.json cuda.json
has both.html '<title>gcn on a simulated rtx5090, gcn on a real GPU - weir report' \
	'# 2026-01-02T03:04:05Z</pre>' 'gcn on a real GPU' 'Times are measured' '<h2 id="beside">' \
	'<th scope="col">simulated</th><th scope="col">measured</th>' 'Of 12 results that both have'
echo "ok - simulated beside measured"

sed 's/"version":"[^"]*"/"version":"0.0.9"/' plain.json >old.json
page versions old.json plain.json
has versions.html 'version 0.0.9' 'the second takes from 1.00 .* to 1.00 times as long'
echo "ok - two versions"

cat >timeline.json <<'TEXT'
{"traceEvents": [
{"ph":"M","name":"process_name","pid":1,"args":{"name":"weir <15M> 'x' `id`"}},
{"ph":"C","name":"resident","pid":1,"ts":0,"args":{"hbm":0,"host":30000000000}},
{"ph":"X","name":"kernel","pid":1,"ts":5,"dur":2},
{"ph":"C","name":"resident","pid":1,"ts":1000000,"args":{"hbm":20000000000,"host":10000000000}},
{"ph":"C","name":"resident","pid":1,"ts":4000000,"args":{"hbm":20000000000}}]}
TEXT
"$WEIR" report plain.json --timeline timeline.json -o timeline.html --png pictures >out 2>err ||
	fail "a timeline: exits with $?"
echo "timeline.html plain.json" >>pages
has timeline.html "weir &lt;15M&gt; &#39;x&#39; \`id\`</strong>: in 4.00 s" \
	'hbm holds 15.0 GB on average, at most 20.0 GB; host holds 15.0 GB on average, at most 30.0 GB'
for picture in 1-epochs 1-time 1-traffic residency; do
	[ "$(head -c 4 pictures/$picture.png | tail -c 3)" = PNG ] || fail "$picture.png is no PNG"
done
[ "$(find pictures -type f | wc -l)" -eq 4 ] || fail "not four pictures"
echo "ok - residency over time; pictures"

# ---------------------------------------------------------------- hostile and incomplete results

printf '%s\n%s\n' \
	'{"schema":"weir-result-1","workload":"<b>w&</b>","parameters":{"nodes":5},"machine":"\"m\u0001`","manager":"<script>alert(1)</script>","status":"ok","epoch_s":[3,1,2]}' \
	'{"schema":"weir-result-1","workload":"<b>w&</b>","parameters":{"nodes":5},"machine":"\"m\u0001`","manager":"b'"'"' . system(\"touch evil\") . '"'"'","status":"failed","error":"</table><img src=x onerror=y>"}' \
	>hostile.json
page hostile hostile.json
held
echo "ok - pages are as they should be"
lacks hostile.html '<script' '<img' '<b>'
has hostile.html '&lt;script&gt;alert\(1\)&lt;/script&gt; takes 2.00 s. Failed: b&#39; . system' '&lt;/table&gt;&lt;img'
find . -name evil | grep -q . && fail "a name was run"
python3 "$SOURCE_DIR/tests/integration/report_page.py" hostile.html plain.json >out 2>&1 &&
	fail "report_page.py takes the page of other results"
echo "ok - names are texts, whatever is in them; members may be missing"

# ---------------------------------------------------------------- what is refused

# refused PATTERN ARGS...: exit status 2, one line, no page. Programs are looked for in $search.
search=$PATH
refused()
{
	pattern=$1
	shift
	env PATH="$search" "$WEIR" report "$@" -o refused.html >out 2>err
	status=$?
	[ $status -eq 2 ] || fail "report $* exits with $status, not 2"
	[ "$(wc -l <err)" -eq 1 ] || fail "not one line for /$pattern/"
	grep -q '^weir: ' err || fail "no 'weir: ' for /$pattern/"
	grep -Eq -- "$pattern" err || fail "no /$pattern/"
	[ -e refused.html ] && fail "a page for /$pattern/"
	empty
	echo "ok - refused: $pattern"
}

refused 'needs results'
refused 'missing.json: No such file' missing.json
refused 'temporary: Is a directory' temporary
refused 'no option --frob' plain.json --frob x
refused 'no option -x' plain.json -x
refused 'named 2 times' - -
refused 'plot-timeout .soon.*seconds' plain.json --plot-timeout soon
: >nothing.json
refused 'nothing.json: no results' nothing.json
{
	head -n 2 plain.json
	echo '{"schema":'
} >cut.json
refused 'cut.json:3: no JSON object' cut.json
sed '2s/weir-result-1/weir-result-9/' plain.json >schema.json
refused "schema.json:2: unknown schema 'weir-result-9'" schema.json
sed '3s/"nodes":/"knots":/' plain.json >nodes.json
refused 'nodes.json:3: "parameters" lacks "nodes"' nodes.json
sed '2s/,"budget_bytes":[0-9]*/,"budget_bytes":null/' replay.json >budgets.json
refused 'budgets.json:2: a replay lacks "budget_bytes"' budgets.json
sed '2s/"trace":/"traces":/' replay.json >traces.json
refused 'traces.json:2: "trace" is missing' traces.json
sed '1s/"faults":0/"faults":"many"/' plain.json >faults.json
refused 'faults.json:1: "faults" is no number' faults.json
sed '1s/"status":"ok"/"status":"fine"/' plain.json >status.json
refused "status.json:1: no status 'fine'" status.json
refused 'plain.json: line 2' plain.json --timeline plain.json
echo '{"traceEvents":[]}' >idle.json
refused 'idle.json: nothing is "resident"' plain.json --timeline idle.json
refused 'cannot make folder .plain.json/x' plain.json --png plain.json/x

# kept FILE ARGS...: an output that is an input is refused, and the input stays.
kept()
{
	cp "$1" before
	name=$1
	shift
	"$WEIR" report "$@" >out 2>err
	[ $? -eq 2 ] || fail "report $* is not refused"
	grep -Eq 'an input of this command|two outputs cannot be one file' err || fail "no reason for $*"
	cmp -s before "$name" || fail "report $* changes $name"
	empty
}

ln -s plain.json link.json
mkdir drawn
ln -s ../plain.json drawn/1-epochs.png
kept plain.json plain.json -o plain.json
kept plain.json plain.json -o link.json
kept plain.json plain.json -o drawn.html --png drawn
kept plain.json - -o plain.json <link.json
kept timeline.json plain.json --timeline timeline.json -o ./timeline.json
kept plain.json plain.json --png pictures -o pictures/1-time.png
"$WEIR" report plain.json -o - 2>err >>link.json && fail "a page is appended to its results"
cmp -s before plain.json || fail "plain.json was appended to"
rm -r link.json drawn
echo "ok - an output that is an input is refused"

mkdir without failing hanging
cat >failing/gnuplot <<'TEXT'
#!/bin/sh
echo >&2
echo "the terminal svg is not there" >&2
exit 3
TEXT
cat >hanging/gnuplot <<'TEXT'
#!/bin/sh
exec sleep 1000
TEXT
chmod +x failing/gnuplot hanging/gnuplot
search="$dir/without"
refused "gnuplot is missing: \`make deps\` installs it" plain.json
search="$dir/failing:$PATH"
refused 'gnuplot failed with status 3: the terminal svg is not there' plain.json
search="$dir/hanging:$PATH"
refused 'gnuplot did not end within 0.2 s.*--plot-timeout' plain.json --plot-timeout 0.2

for signal in INT:130 TERM:143; do
	env --default-signal=INT PATH="$search" "$WEIR" report plain.json -o refused.html >out 2>err &
	pid=$!
	tries=0
	until [ -n "$(ls -A temporary)" ]; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "gnuplot is not started"
		sleep 0.05
	done
	sleep 0.1
	kill -s "${signal%:*}" $pid
	wait $pid
	status=$?
	[ $status -eq "${signal#*:}" ] || fail "SIG${signal%:*} exits with $status"
	has err 'interrupted'
	empty
	echo "ok - SIG${signal%:*} ends it and gnuplot"
done
echo old >kept.html
"$WEIR" report cut.json -o kept.html >out 2>err && fail "cut.json is taken"
[ "$(cat kept.html)" = old ] || fail "an error changed the page that was there"
"$WEIR" report plain.json -o no/such/page.html >out 2>err
[ $? -eq 2 ] || fail "a missing folder is no error"
has err 'cannot write .no/such/page.html'
if [ -c /dev/full ]; then
	"$WEIR" report plain.json -o /dev/full >out 2>err
	[ $? -eq 2 ] || fail "a full disk is no error"
	has err 'No space left'
fi
"$WEIR" report --help >out || fail "--help exits with $?"
has out 'usage: weir report' '--timeline' '--png' '--svg' '--output'
find . -name '.*.tmp' | grep -q . && fail "a partial file is left"
echo "ok - an old page stays until there is a new one"
