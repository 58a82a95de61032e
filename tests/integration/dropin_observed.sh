#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $programs are dropin.sh's
#
# `weir replay --kinds observed`: of a program that in its passes only reads most of its memory the
# lower bound is below the recorded one, where every launch writes what it names; of one that writes
# its memory it is not. A trace in parts says the same as all of it, and one without comparisons is
# refused. Needs WEIR, BUILD_DIR, SOURCE_DIR, FAKECUDA_DRIVER, gzip and python3. Prints a line a
# test.
#
# A library cannot be put before a sanitizer's, so this is for builds without one.
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
without_sanitizer
export FAKECUDA_HBM_BYTES=67108864

# A link that is slow, above all both ways at once, beside which kernels take no time.
python3 - <<'END_OF_MACHINE' || fail "no machine"
import json
import os

m = json.load(open(os.environ["SOURCE_DIR"] + "/machines/h200.json"))
m["name"] = "slow"
m["vmm"]["granularity_bytes"]["value"] = 65536
for name, rate in m["link"][0].items():
    if name.endswith("bytes_per_s"):
        rate["value"] /= 80 if name == "duplex_bytes_per_s" else 50
m["kernel"] = [{"name": name, "factor": {"value": 1, "origin": "assumed", "source": "a test"}}
               for name in ("sum", "fill", "store_flag")]
json.dump(m, open("slow.json", "w"))
END_OF_MACHINE

# replay TRACE JSON OPTIONS...
replay()
{
	trace=$1
	json=$2
	shift 2
	"$WEIR" replay "$trace" --machine ./slow.json --manager zerocopy --gpu-budget 50% \
		--no-think --json "$json" "$@" >out 2>err || fail "replay $trace $* exits with $?" out err
}

for name in reads writes; do
	"$programs/steady" $name >plain || fail "the program fails by itself: $name" plain
	timeout 60 "$WEIR" run --mode fast --gpu-budget 512KiB --trace $name.trace \
		--mark store_flag:2 -- "$programs/steady" $name >out 2>err || fail "$name exits with $?" out err
	cmp -s plain out || fail "$name differs" plain out err
	replay $name.trace $name.recorded
	if grep -q 'kinds' out; then
		fail "kinds as recorded are told of" out
	fi
	replay $name.trace $name.observed --kinds observed
	has out '^kinds as observed: [0-9]+ of [0-9]+ uses that may write were found to read$'
done
"$WEIR" trace show reads.trace >out || fail "the trace cannot be shown" out
has out ' compared +life [0-9]+, block 0: unchanged$' ' compared +life [0-9]+, block 0: first$'
"$WEIR" trace convert writes.trace --csv - >out || fail "the trace cannot be converted" out
has out ',compared,.*,"changed"$'
python3 - <<'END_OF_CHECK' || fail "the bounds are not as they should be"
import json

# What the program shows: a word of one array at the end of each pass, and one of each array when it
# ends. Copies to the host are guessed to write, too, and they do not: so blocks that came up for
# them may be found unchanged.
SHOWN = 12 + 24

def read(name):
    return [json.loads(line) for line in open(name)]

for name in "reads", "writes":
    for recorded, observed in zip(read(name + ".recorded"), read(name + ".observed")):
        of = observed["parameters"]
        print(name, recorded["bound_s"], observed["bound_s"], of["observed_reads"],
              of["guessed_writes"])
        assert recorded["parameters"]["kinds"] == "recorded"
        assert of["kinds"] == "observed"
        assert recorded["status"] == observed["status"] == "ok"
        if name == "reads":
            # How much lower depends on how often blocks came and went, and that on the host.
            assert observed["bound_s"] < recorded["bound_s"]
            assert of["observed_reads"] > 0
        else:
            assert 0.99 * recorded["bound_s"] <= observed["bound_s"] <= recorded["bound_s"]
            assert of["observed_reads"] <= SHOWN
        # The last epoch is longer: it has what the program reads at its end.
        assert sum(observed["epoch_s"]) / len(observed["epoch_s"]) >= observed["bound_s"]
END_OF_CHECK
echo "ok - the bound of what reads is lower where that was observed, and of what writes it is not"

# Each use counts in one part, by comparisons behind the part, too.
sed -n 's/.*"observed_reads":\([0-9]*\).*/\1/p' reads.observed | head -n 1 >all
marks=$("$WEIR" trace show reads.trace | sed -n 's/^ *[0-9.]* us mark *//p' | sed -n '3p;5p')
first=$(echo "$marks" | head -n 1)
last=$(echo "$marks" | tail -n 1)
"$WEIR" trace cut reads.trace 1.trace --to "$first" || fail "no first part"
"$WEIR" trace cut reads.trace 2.trace --from "$first" --to "$last" || fail "no second part"
"$WEIR" trace cut reads.trace 3.trace --from "$last" || fail "no third part"
: >parts
for part in 1 2 3; do
	replay $part.trace part.json --kinds observed --warm-up 0
	sed -n 's/.*"observed_reads":\([0-9]*\).*/\1/p' part.json | head -n 1 >>parts
done
[ "$(awk '{ sum += $1 } END { print sum }' parts)" = "$(cat all)" ] ||
	fail "the parts have other reads than all of it" all parts
echo "ok - parts of a trace say the same"

"$WEIR" report reads.recorded reads.observed -o page.html >out 2>err ||
	fail "there is no page of both kinds" out err
has page.html 'kinds as observed'
echo "ok - a page shows them apart"

gzip -dc "$SOURCE_DIR/tests/data/gcn-5m.trace.gz" >old.trace || fail "no trace"
"$WEIR" replay old.trace --kinds observed >out 2>err
[ $? = 2 ] || fail "a trace without comparisons is not refused" out err
has err '^weir: --kinds observed: old.trace: it holds no comparisons of blocks$'
[ ! -s out ] || fail "a trace without comparisons gives a result" out
"$WEIR" replay reads.trace --kinds known >out 2>err
[ $? = 2 ] || fail "--kinds known is not refused" out err
has err "kinds.* 'known': write recorded or observed$"
echo "ok - what says nothing is refused"
