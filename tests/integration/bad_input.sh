#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What `weir` refuses: one line on standard error that names the thing, exit status 2 (128 + n when
# stopped by a signal), and no file. Needs WEIR and SOURCE_DIR. Prints a line a test.
#
# Labels: sanitized-only
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

fail()
{
	echo "not ok - $1"
	[ -f err ] && sed 's|^|# |' err
	exit 1
}

# one_line PATTERN: standard error is one line, begins with "weir: " and has the pattern.
one_line()
{
	[ "$(wc -l <err)" -eq 1 ] || fail "not one line for /$1/"
	grep -q '^weir: ' err || fail "no 'weir: ' for /$1/"
	grep -Eq -- "$1" err || fail "no /$1/"
}

# refused PATTERN ARGS...: exit status 2, nothing on standard output, one line.
refused()
{
	pattern=$1
	shift
	"$WEIR" "$@" >out 2>err
	status=$?
	[ $status -eq 2 ] || fail "weir $* exits with $status, not 2"
	[ -s out ] && fail "weir $* writes to standard output"
	one_line "$pattern"
	echo "ok - weir $*"
}

bad()
{
	pattern=$1
	shift
	refused "$pattern" bench gcn "$@"
}

refused 'command is missing'
refused "no command 'bensh'; did you mean bench" bensh
refused "no command 'train'" train
refused 'needs a workload' bench
refused "no workload 'gnn'" bench gnn

# A name with a newline in it makes one line all the same.
refused "no command 'a[?]b'" "$(printf 'a\nb')"
refused "no workload 'a[?]b'" bench "$(printf 'a\nb')"
refused "no manager 'a[?]b'" bench pagein --manager "$(printf 'a\nb')"
refused '^weir: a[?]b: No such file' replay "$(printf 'a\nb')"
bad "--policy 'a[?]b': .*control character" --manager uvm --policy "$(printf 'a\nb')"

bad 'no option --frobnicate' --frobnicate
bad 'did you mean --nodes' --node 5M
bad '--nodes lacks its value' --nodes
bad '--nodes lacks its value' --nodes --check
bad "unexpected argument '5M'" 5M
bad '--check takes no value' --check=yes
bad '--nodes is given twice' --nodes 1M --nodes 2M

bad 'enigma' --machine enigma
bad 'no-such.json' --machine ./no-such.json
echo '{"name": 5' >broken.json
bad 'broken.json' --machine ./broken.json
# With a GPU, the kernels are what is missing.
WEIR_CUDA_KERNELS=/none.so bad "machine 'cuda'.*or choose a simulated one" --machine cuda
WEIR_CUDA_DEBUG=yes bad "WEIR_CUDA_DEBUG is 'yes': write 0 or 1" --machine cuda
bad '--debug is for real GPUs' --debug --machine laptop
bad "--device '7'" --device 7
bad "--device '-1'" --device -1

bad "no manager 'nativ'; there are native, malloc, zerocopy, uvm, weir" --manager nativ
bad 'a name is missing' --manager native,,weir
bad 'a name is missing' --manager native,
bad 'native is listed twice' --manager native,malloc,native
bad 'no such option' --manager native+max

bad "--nodes '0'" --nodes 0
bad "--nodes '-5'" --nodes -5
bad "--nodes '5X'" --nodes 5X
bad "--nodes '99999999999999999999999'" --nodes 99999999999999999999999
bad "--nodes '9000000T'" --nodes 9000000T
bad 'too large' --nodes 60G
bad 'a size is missing' --nodes 1M,,2M
bad 'listed twice' --nodes 1M,1000k
bad "--slice '0'" --slice 0
bad "--epochs '0'" --epochs 0
bad "--epochs '1.5'" --epochs 1.5
bad "--hidden '0'" --hidden 0
bad "--threads '0'" --threads 0
bad "--seed 'abc'" --seed abc
bad "--seed '-1'" --seed -1
bad "--seed '18446744073709551616'" --seed 18446744073709551616

bad "--gpu-budget '0'" --gpu-budget 0
bad "--gpu-budget '1'" --gpu-budget 1
bad "--gpu-budget '34GB'.*beyond" --gpu-budget 34GB
bad "--gpu-budget '99999999999TB'" --gpu-budget 99999999999TB
bad "--gpu-budget 'much'" --gpu-budget much
bad "--gpu-budget '0%'" --gpu-budget 0%
bad "--gpu-budget '%'" --gpu-budget %
bad "--gpu-budget '-5%'" --gpu-budget -5%
bad "--gpu-budget '1e1%'" --gpu-budget 1e1%
bad "--gpu-budget '2000%'" --gpu-budget 2000%
bad 'gpu-budget of 200% is 45.89 GB for 5M nodes, beyond the device.s memory, 33.67 GB' --nodes 5M --gpu-budget 200%
bad "--host-budget '0'" --host-budget 0
bad "--host-budget '1000TB'.*beyond" --host-budget 1000TB
bad "--block-size '0'" --block-size 0
bad "--block-size '3MiB'" --block-size 3MiB
bad "--block-size '4KiB'" --block-size 4KiB
bad 'two blocks' --block-size 16MiB --gpu-budget 31MiB

refused "--touch '0%': out of range; choose above 0% and up to 100%" bench pagein --touch 0%
refused "--touch '101%': out of range; choose above 0% and up to 100%" bench pagein --touch 101%
refused "--host-budget '1000TB': not above 0 and up to the host's memory, 128 GB" bench pagein \
	--host-budget 1000TB
refused 'gpu-budget: 40 GB .*at least a page, 64 KiB, and no more than the device.s memory, 33.67 GB' \
	bench pagein --bytes 16MiB --gpu-budget 40000000000
bad 'too large to run: they need .* TB, and 8 TiB is the most' --nodes 6G
bad "--data 'imaginary'" --data imaginary
bad '--check and --data phantom contradict' --check --data phantom
bad 'real data of 1G nodes' --data real --nodes 1G

mkdir graph
bad 'nodes.txt' --graph graph
bad 'nowhere' --graph nowhere
bad '--nodes and --graph contradict' --graph graph --nodes 5
printf 'train 0 1 1\ntrain zero 1 2\n' >graph/nodes.txt
printf '0 1\n' >graph/edges.txt
bad 'nodes.txt' --graph graph
printf 'train 0 1 1\ntest 1 1 2\n' >graph/nodes.txt
printf '0 1\n1 9\n' >graph/edges.txt
bad 'edges.txt' --graph graph

bad 'no-such-directory.*create the directory' --nodes 1M --json no-such-directory/out.json
bad "'graph'.*directory" --nodes 1M --json graph

# kept FILE PATTERN ARGS...: refused, and FILE is what it was.
kept()
{
	cp "$1" before
	name=$1
	shift
	refused "$@"
	cmp -s before "$name" || fail "weir $2 $3 changes $name"
}

"$WEIR" info --measure --machine laptop --quick -o machine.json >out 2>err || fail "no description"
printf '0 1\n' >graph/edges.txt
ln -s graph/edges.txt edges
printf '1 2\n' >edges.txt
for output in --json --timeline --fit-kernels; do
	kept machine.json 'is an input of this command.*name' bench gcn --machine ./machine.json \
		--nodes 10k --manager native $output machine.json
	kept graph/edges.txt 'is an input of this command' bench gcn --machine laptop --graph graph \
		--manager native $output edges
done
WEIR_MACHINE_PATH=. kept machine.json 'is an input of this command' bench gcn --machine machine \
	--nodes 10k --manager native --json machine.json
for output in --json --output; do
	kept edges.txt 'is an input of this command' bench bfs edges.txt --machine laptop \
		--manager native $output ./edges.txt
done
kept machine.json 'is an input of this command' info --measure --quick --machine ./machine.json \
	-o machine.json
bad 'two outputs cannot be one file' --machine laptop --nodes 10k --manager native --json one.json \
	--timeline ./one.json
refused 'two outputs cannot be one file' bench cc edges.txt --machine laptop --manager native \
	--json one.json --output ./one.json
[ -e one.json ] && fail "two outputs leave a file"
if [ -c /dev/full ]; then
	bad '/dev/full.*No space left' --nodes 1M --manager native --json /dev/full
	[ -c /dev/full ] || fail "/dev/full was replaced"
	"$WEIR" bench gcn --nodes 1M --manager native >/dev/full 2>err
	[ $? -eq 2 ] || fail "a table on a full disk does not exit with 2"
	one_line 'cannot write the table: No space left'
	echo "ok - a table on a full disk"
fi

WEIR_NODES=many "$WEIR" bench gcn >out 2>err
[ $? -eq 2 ] || fail "WEIR_NODES=many is taken"
one_line "WEIR_NODES 'many'"
echo "ok - an environment variable is named"

# Long enough that it is still running when the signal comes.
for signal in INT:130 TERM:143; do
	echo old >kept.json
	# A shell without job control has background commands ignore SIGINT: env undoes that.
	env --default-signal=INT "$WEIR" bench gcn --data real --nodes 20000 --slice 20000 \
		--epochs 100000 --manager native --json kept.json >out 2>err &
	pid=$!
	tries=0
	until ls .kept.json.*.tmp >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "no partial file appears"
		sleep 0.1
	done
	sleep 0.2
	kill -s "${signal%:*}" $pid
	wait $pid
	status=$?
	[ $status -eq "${signal#*:}" ] || fail "SIG${signal%:*} exits with $status"
	one_line 'interrupted'
	[ "$(cat kept.json)" = old ] || fail "an interrupted run changed its file"
	ls .kept.json.*.tmp >/dev/null 2>&1 && fail "a partial file is left"
	echo "ok - SIG${signal%:*}"
done

find . -name '.*.tmp' | grep -q . && fail "a partial file is left"
echo "ok - nothing is left behind"
