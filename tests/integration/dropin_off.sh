#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $programs are dropin.sh's
#
# `weir run --mode off`: the program is started as it is. Needs WEIR, BUILD_DIR, SOURCE_DIR,
# FAKECUDA_DRIVER and CC. Prints a line a test.
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"

# Nothing of weir is there, and no driver is needed.
unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF LD_PRELOAD
# shellcheck disable=SC2016 # the shell that is run expands it
"$WEIR" run --mode off -- sh -c 'env | sort' >out 2>err || fail "a script fails" out err
env | sort | grep -v '^_=' >plain
grep -v '^_=' out | cmp -s plain - || fail "the environment is another one" plain out
[ ! -s err ] || fail "--mode off says something" err
LD_LIBRARY_PATH='' "$WEIR" run --mode off --quiet -- sh -c 'exit 7'
[ $? = 7 ] || fail "the status is not the program's"
"$program" >plain || fail "the program fails by itself" plain
"$WEIR" run --mode off -- "$program" >out 2>err || fail "the program fails" out err
cmp -s plain out || fail "the program differs" plain out
echo 'int main(void) { return 3; }' >static.c
if "${CC:?is the compiler}" -static static.c -o static 2>/dev/null; then
	"$WEIR" run --mode off -- ./static
	[ $? = 3 ] || fail "a static program cannot be started"
fi
echo "ok - the program is as it is"

for option in "--gpu-budget 1GB" "--host-budget 1GB" "--gpu 0" "--when oom" "--block 2MiB" \
	"--hold 5" "--trace t" "--mark kernel" "--stats s" --explain; do
	# shellcheck disable=SC2086 # words
	refused "^weir: run: ${option%% *} has no effect with --mode off" --mode off $option -- \
		"$program"
done
refused "no program 'nowhere'" --mode off -- nowhere
refused 'Permission denied' --mode off -- ./static.c
WEIR_RUN_DRIVER=x refused 'under weir run already' --mode off -- "$program"
"$WEIR" run --help | grep -q 'off|fixed|safe|fast' || fail "--help does not tell of --mode off"
echo "ok - what has no effect is refused"
