# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # $dir is the test's folder
#
# Sourced by the tests that run `weir bench`: no option comes from the environment of whoever runs
# them, and the machine is a simulated one, also where there is a GPU. And what some of them share.
for name in MACHINE MEASURED DEVICE MANAGER NODES GPU_BUDGET HOST_BUDGET EPOCHS DATA SEED SLICE \
	BLOCK_SIZE HIDDEN THREADS CUDA_DEBUG TRACE; do
	unset "WEIR_$name"
done
unset COLUMNS
export WEIR_MACHINE=rtx5090

# fail WHAT FILE...: show the files and end the test.
fail()
{
	echo "not ok - $1"
	shift
	for file in "$@"; do
		sed "s|^|# |" "$file"
	done
	exit 1
}

# run NAME ARGS...: `weir bench gcn` into $dir/NAME.json, .out and .err; the status must be 0.
run()
{
	name=$1
	shift
	"$WEIR" bench gcn "$@" --json "$dir/$name.json" >"$dir/$name.out" 2>"$dir/$name.err" ||
		fail "bench gcn $* exits with $?" "$dir/$name.out" "$dir/$name.err"
}

# has FILE PATTERN...: each pattern is in the file.
has()
{
	file=$1
	shift
	for pattern in "$@"; do
		grep -Eq -- "$pattern" "$file" || fail "no /$pattern/ in $file" "$file"
	done
}
