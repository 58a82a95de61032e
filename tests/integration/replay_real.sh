#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir replay` of a real training (tests/data/README.md) on the simulated H200: with half, two
# thirds and all of its memory weir takes no more than 1.02 times as long as the best of the other
# managers, and no more than 1.4 times the bound; nobody is below the bound. Needs WEIR, SOURCE_DIR,
# gzip and python3. Prints a line a test.
#
# Labels: slow
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"
cd "$dir" || exit 1

gzip -dc "$SOURCE_DIR/tests/data/gcn-5m.trace.gz" >gcn.trace || fail "no trace"
"$WEIR" replay gcn.trace --machine h200 --manager native,zerocopy,weir --gpu-budget 50%,66%,110% \
	--json out.json >out 2>err || fail "replay exits with $?" out err
python3 - <<'END' || fail "weir is slower than it was" out
import json

rows = [json.loads(line) for line in open("out.json")]
assert len(rows) == 9
for native, zerocopy, weir in zip(rows[0::3], rows[1::3], rows[2::3]):
    assert [row["manager"] for row in (native, zerocopy, weir)] == ["native", "zerocopy", "weir"]
    fits = native["budget_bytes"] > native["needs_bytes"]
    assert native["status"] == ("ok" if fits else "out-of-memory")
    assert zerocopy["status"] == weir["status"] == "ok"
    bound = weir["bound_s"]
    assert bound > 0
    for other in [native, zerocopy] if fits else [zerocopy]:
        assert other["epoch_median_s"] >= bound, other
        assert weir["epoch_median_s"] <= 1.02 * other["epoch_median_s"], (weir, other)
    assert bound <= weir["epoch_median_s"] <= 1.4 * bound, weir
# What the training took on that machine, where all fits: 0.755 to 0.766 s an epoch.
assert 0.5 < rows[6]["epoch_median_s"] < 0.8, rows[6]
END
echo "ok - a real training under weir is close to the bound, and nobody is faster"
