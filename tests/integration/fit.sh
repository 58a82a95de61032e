#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench gcn --fit-kernels`: of a machine whose kernels have made-up factors, measured by a
# simulated run, these factors come back; and the fitted machine runs as that one does. Then the
# same way through the CUDA backend, with a driver without a GPU: --measured and --fit-kernels. Needs
# WEIR, SOURCE_DIR, FAKECUDA and python3. Prints a line a test.
# Labels: slow
set -u

: "${WEIR:?is the program to test}"
: "${FAKECUDA:?is the CUDA driver without a GPU}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# bench ARGS...: the status must be 0.
bench()
{
	"$WEIR" bench gcn "$@" >"$dir/out" 2>"$dir/err" ||
		fail "bench gcn $* exits with $?" "$dir/err"
}

# The default machine with factors.
python3 - "$SOURCE_DIR/machines/rtx5090.json" "$dir/made.json" <<'END' || fail "no description"
import json, sys

made_up = {"gather": 1.37, "scale": 0.83, "scatter_add": 1.61, "linear": 1.2, "relu": 2.5,
           "never_launched": 7}
with open(sys.argv[1], encoding="utf-8") as file:
    machine = json.load(file)
machine["kernel"] = [{"name": name, "factor": {"value": factor, "origin": "assumed",
                                               "source": "made up"}}
                     for name, factor in made_up.items()]
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(machine, file)
END

bench --machine "$dir/made.json" --nodes 2M --manager native --epochs 3 --fit-kernels "$dir/fit.json"
python3 - "$dir/made.json" "$dir/fit.json" <<'END' >"$dir/out" || fail "factors" "$dir/out"
import json, sys

def kernels(name):
    with open(name, encoding="utf-8") as file:
        machine = json.load(file)
    return {kernel["name"]: kernel["factor"] for kernel in machine.pop("kernel")}, machine

(made, rest), (fit, fit_rest) = kernels(sys.argv[1]), kernels(sys.argv[2])
if rest != fit_rest:
    sys.exit("more than the kernels has changed")
if "never_launched" in fit:
    sys.exit("a kernel that was not launched has a factor")
for name in made.keys() - {"never_launched"}:
    if name not in fit:
        sys.exit("%s has no factor" % name)
for name, factor in fit.items():
    expected = made[name]["value"] if name in made else 1
    print("%s: %.6f, made with %.6f" % (name, factor["value"], expected))
    # Times are whole nanoseconds, and a kernel takes at least 2,000.
    if abs(factor["value"] / expected - 1) > 5e-4:
        sys.exit("%s is wrong" % name)
    if factor["origin"] != "fitted" or "2M nodes" not in factor["source"]:
        sys.exit("%s: no origin" % name)
END
sed 's|^|# |' "$dir/out"
"$WEIR" info --machine "$dir/fit.json" --origins >"$dir/out" || fail "info" "$dir/out"
grep -q '^kernel gather' "$dir/out" || fail "info has no kernels" "$dir/out"
echo "ok - the factors of a simulated machine come back"

for machine in made fit; do
	bench --machine "$dir/$machine.json" --nodes 2M --gpu-budget 50% --manager zerocopy,weir \
		--json "$dir/$machine.out"
	bench --machine "$dir/$machine.json" --nodes 2M --manager native --json "$dir/native.out"
	cat "$dir/native.out" >>"$dir/$machine.out"
done
python3 - "$dir/made.out" "$dir/fit.out" <<'END' >"$dir/out" || fail "predictions" "$dir/out"
import json, sys

runs = [[json.loads(line) for line in open(name, encoding="utf-8")] for name in sys.argv[1:]]
for made, fit in zip(*runs):
    for what in ("epoch_median_s", "bound_s"):
        off = fit[what] / made[what] - 1
        print("%s, %s: off by %.2g" % (made["manager"], what, off))
        if not abs(off) < 2e-3:
            sys.exit("the fitted machine is another one")
END
sed 's|^|# |' "$dir/out"
echo "ok - and predict what the machine does"

# refused WHAT ARGS...: status 2, WHAT in the one line of the error, nothing written.
refused()
{
	what=$1
	shift
	"$WEIR" bench gcn --fit-kernels "$dir/none" "$@" >"$dir/out" 2>"$dir/err"
	[ $? -eq 2 ] || fail "bench gcn $* is not refused" "$dir/err"
	grep -q -- "$what" "$dir/err" || fail "no '$what' in the error" "$dir/err"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "more than a line" "$dir/err"
	[ -e "$dir/none" ] && fail "a refused run has written its file"
}

refused 'add --manager native' --manager weir
refused 'choose one of --nodes' --manager native --nodes 1M,2M
refused 'drop one of them' --manager native --timeline "$dir/x"
refused 'drop one of them' --manager native --measured "$dir/made.json"
refused 'did not run: ' --manager native --gpu-budget 1GB
find "$dir" -name '.*.tmp' | grep -q . && fail "a partial file is left"
echo "ok - what cannot be fitted is refused"

# ------------------------------------------------------------------ CUDA, without a GPU

mkdir "$dir/driver"
ln -s "$FAKECUDA" "$dir/driver/libcuda.so.1"
WEIR_CUDA_KERNELS=$(dirname "$FAKECUDA")/libweir-gcn-fake.so
export LD_LIBRARY_PATH="$dir/driver" WEIR_CUDA_KERNELS FAKECUDA_GRANULARITY=4096

refused 'name this computer.s with --measured' --machine cuda --nodes 2k --manager native
refused 'no such machine' --machine cuda --measured nonesuch --nodes 2k --manager native
python3 - "$dir/made.json" "$dir/other.json" <<'END' || fail "no other description"
import json, sys

with open(sys.argv[1], encoding="utf-8") as file:
    machine = json.load(file)
machine["memory"].reverse()
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(machine, file)
END
refused 'describes another machine' --machine cuda --measured "$dir/other.json" --nodes 2k \
	--manager native
bench --machine cuda --measured "$dir/made.json" --nodes 1k --slice 20k --hidden 32 --epochs 2 \
	--manager native --fit-kernels "$dir/gpu.json" --json "$dir/gpu.out"
"$WEIR" info --machine "$dir/gpu.json" >"$dir/out" 2>&1 || fail "a fitted description" "$dir/out"
grep -q '^kernel scatter_add' "$dir/out" || fail "no kernels" "$dir/out"
grep -q '"in_memory":"measured","bound":"measured"' "$dir/gpu.out" ||
	fail "the reference was not measured" "$dir/gpu.out"
bench --machine "$dir/gpu.json" --nodes 1k --slice 20k --hidden 32 --manager native,weir

# What does not fit the GPU has a reference all the same, and says which.
FAKECUDA_HBM_BYTES=4194304 bench --machine cuda --nodes 3k --slice 4k --hidden 48 --check \
	--manager native,weir --block-size 16KiB --json "$dir/large.out"
grep -q '3000 nodes do not fit gpu0: .* the description.s model' "$dir/err" ||
	fail "no line says that the reference is modelled" "$dir/err"
grep -q '"manager":"weir".*"passed":true.*"in_memory":"modelled","bound":"modelled"' \
	"$dir/large.out" || fail "the result does not say so" "$dir/large.out"
grep -q '"manager":"native".*"status":"out-of-memory".*"epoch_cpu_s":\[\]' "$dir/large.out" ||
	fail "native fits after all" "$dir/large.out"
echo "ok - on the CUDA backend"
