# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# Sourced by the tests that run `weir bench`: no option comes from the environment of whoever runs
# them, and the machine is a simulated one, also where there is a GPU. And what some of them share.
for name in MACHINE MEASURED DEVICE MANAGER NODES GPU_BUDGET HOST_BUDGET EPOCHS DATA SEED SLICE \
	BLOCK_SIZE HIDDEN THREADS CUDA_DEBUG; do
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
