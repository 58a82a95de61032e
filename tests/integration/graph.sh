#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir graph` from the outside: what it makes and prints, one line and status 2 for each thing that
# can be wrong, and that nothing partial is left. WEIR_GRAPH_DIR is a folder of more graphs, lists of
# edges NAME.txt, which are no part of weir; without it only generated ones are used.
# Needs WEIR, and for what a GPU generates the driver without one. Prints a line a test.
#
# Labels: sanitized-only
set -uo pipefail

weir=${WEIR:?the program}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

fail() {
	echo "FAILED: $*" >&2
	[[ -f err ]] && sed 's/^/# /' err >&2
	exit 1
}

# refused TEXT ARGUMENT...: status 2, nothing on stdout, one line on stderr that has the text, and no
# file out.csr, nor what might become one.
refused() {
	local text=$1 status=0
	shift
	"$weir" graph "$@" >out 2>err || status=$?
	[[ $status == 2 ]] || fail "graph $*: status $status"
	[[ ! -s out ]] || fail "graph $*: prints to stdout"
	[[ $(wc -l <err) == 1 ]] || fail "graph $*: not one line"
	[[ $(cat err) == "weir: "*"$text"* ]] || fail "graph $*: the line lacks '$text'"
	[[ ! -e out.csr ]] || fail "graph $*: leaves a file"
	nothing_left
}

nothing_left() {
	[[ -z $(find . -name '.*.tmp' -o -name '.weir-graph*') ]] || fail "something is left behind"
}

make() {
	"$weir" graph "$@" >out 2>err || fail "graph $*"
	[[ ! -s err ]] || fail "graph $*: prints to stderr"
}

# info FILE KEY: a number or a word of info --check --json.
info() {
	"$weir" graph info --check --json "$1" 2>err | grep "\"$2\":" | sed 's/.*: //; s/,$//'
}

# has FILE KEY VALUE
has() {
	local value
	value=$(info "$1" "$2")
	[[ $value == "$3" ]] || fail "$1: $2 is '$value', not '$3'"
}

# list NAME: counts of a list of edges, made by another program, are those of its graph file.
list() {
	local name=$1
	read -r edges vertices loops duplicates < <(awk '/^[^#%]/ {
		edges++; id[$1]; id[$2]; loops += $1 == $2; duplicates += seen[$1, $2]++ > 0 }
		END { print edges + 0, length(id), loops + 0, duplicates + 0 }' "$name")
	make convert --memory 1MiB "$name" list.csr
	has list.csr edges "$edges"
	has list.csr vertices "$vertices"
	has list.csr self_loops "$loops"
	has list.csr duplicates "$duplicates"
	make convert --no-self-loops --dedupe list.csr clean.csr
	has clean.csr duplicates 0
	has clean.csr self_loops 0
	make convert --symmetrize --dedupe --weights gen list.csr both.csr
	has both.csr symmetric true
	has both.csr components "$(info list.csr components)"
	[[ $(info both.csr weight_max) -le 255 && $(info both.csr weight_min) -ge 1 ]] ||
		fail "$name: weights beyond 1 to 255"
	# Turned around twice, it is itself.
	make convert --transpose list.csr one.csr
	make convert --transpose one.csr two.csr
	cmp list.csr two.csr || fail "$name: turned around twice it is not itself"
	echo "ok - $name"
}

# ---------------------------------------------------------------- what is made

make generate --kron 10 --seed 3 kron.csr
make generate --kron 10 --seed 3 --memory 64KiB --threads 3 again.csr
cmp kron.csr again.csr || fail "a seed is not one graph"
make generate --kron 10 --seed 4 other.csr
cmp -s kron.csr other.csr && fail "two seeds are one graph"
has kron.csr vertices 1024
has kron.csr symmetric true
make generate --uniform 8 --degree 4 --raw uniform.csr
has uniform.csr edges 1024
text=$("$weir" graph info kron.csr) || fail "info"
grep -q '^symmetric *yes' <<<"$text" || fail "info says nothing of symmetry"
grep -q '^components' <<<"$text" && fail "info passes over edges unasked"
"$weir" graph info uniform.csr | grep -q 'symmetric *not known' || fail "info knows too much"
for command in '' convert generate info; do
	# shellcheck disable=SC2086 # no word, or one
	"$weir" graph $command --help | grep -q '^usage: weir graph' || fail "$command --help"
done
echo "ok - generate, info"

awk 'BEGIN { for (i = 0; i < 5000; i++) {
	x = (x * 48271 + 11) % 2147483647; y = (x * 16807) % 2147483647
	print x % 400 * 7, y % 400 * 1000003 } print "4294967299 4294967299" }' >generated.txt
list generated.txt
if [[ -n ${WEIR_GRAPH_DIR-} ]]; then
	for file in "$WEIR_GRAPH_DIR"/*.txt; do
		list "$file"
	done
fi

printf '1 2\n' >a.txt
printf '2 3\n' >b.txt
make convert a.txt - both.csr <b.txt
has both.csr edges 2
make convert <(cat a.txt) pipe.csr
has pipe.csr edges 1
printf '%%%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 4.0\n3 3 7\n' >m.mtx
make convert m.mtx m.csr
has m.csr edges 3
has m.csr weight_max 7
ln -s m.csr link.csr
make convert a.txt link.csr
[[ -L link.csr ]] || fail "a link was replaced"
has m.csr edges 1
echo "ok - several inputs, pipes, matrices, a link"

# ---------------------------------------------------------------- what an output does not replace

# kept FILE TEXT ARGUMENT...: refused, and FILE is what it was.
kept() {
	local file=$1
	shift
	cp "$file" before
	refused "$@"
	cmp before "$file" || fail "graph $*: changes $file"
}

kept m.csr 'is an input of this command' convert m.csr m.csr
kept m.csr 'is an input of this command' convert link.csr ./m.csr
kept m.csr 'is an input of this command' convert m.csr link.csr
ln a.txt hard.txt
kept a.txt 'is an input of this command' convert --force a.txt b.txt hard.txt
kept a.txt 'is an input of this command' convert --force - a.txt <hard.txt
# An output that is forgotten is not the last input.
kept b.txt 'is there already and no graph file' convert a.txt b.txt
kept b.txt 'is there already and no graph file' generate --kron 3 b.txt
cp b.txt replaced.txt
make convert --force a.txt replaced.txt
has replaced.txt edges 1
: >replaced.txt
make convert a.txt replaced.txt
has replaced.txt edges 1
make convert a.txt replaced.txt
echo "ok - inputs, and what is no graph file, stay"

# ---------------------------------------------------------------- what is refused

refused 'needs a command'
refused "no command 'inof'; did you mean info" inof
refused "no command 'frobnicate'" frobnicate
refused 'did you mean --kron' generate --krom 3 out.csr
refused '--kron lacks its value' generate --kron
refused 'one of --kron SCALE and --uniform' generate out.csr
refused 'write one alone' generate --kron 3 --uniform 3 out.csr
refused "--kron '41'" generate --kron 41 out.csr
refused "--uniform '-1'" generate --uniform -1 out.csr
refused "--degree 0" generate --kron 3 --degree 0 out.csr
refused "--weights 'keep'" generate --kron 3 --weights keep out.csr
refused "--memory '1KiB'" generate --kron 3 --memory 1KiB out.csr
refused "--memory 'much'" generate --kron 3 --memory much out.csr
refused "--threads '257'" generate --kron 3 --threads 257 out.csr
refused 'writes one file, 0 are named' generate --kron 3
refused 'writes one file, 2 are named' generate --kron 3 out.csr out2.csr
refused 'name a file instead of -' generate --kron 3 -
refused 'create the directory' generate --kron 3 no-such/out.csr
refused 'more edges than fit into --memory' generate --kron 14 --raw --memory 64KiB --degree 64 out.csr
refused 'needs an input and an output' convert a.txt
refused 'needs an input and an output' convert
refused "--weights 'some'" convert --weights some a.txt out.csr
refused 'standard input is named 2 times' convert - - out.csr
refused 'no-such.txt: No such file' convert no-such.txt out.csr
refused 'Is a directory' convert . out.csr
refused 'a matrix is converted alone' convert a.txt m.mtx out.csr
refused 'a graph file is converted alone' convert a.txt kron.csr out.csr
refused 'cannot be read from a pipe' convert <(cat kron.csr) out.csr
gzip <a.txt >a.gz
refused 'zcat FILE |' convert a.gz out.csr
: >empty
refused 'empty:0: the file has no edge' convert empty out.csr
refused 'empty: the file is empty' info empty
printf '1 2\n1 18446744073709551616\n' >large.txt
refused "large.txt:2: '18446744073709551616' is beyond 64 bits" convert a.txt large.txt out.csr
printf '1 2\n3 4' >mid.txt
refused 'mid.txt:2: the file ends in mid-line' convert mid.txt out.csr
head -c 3000000 /dev/zero >zeros
refused 'zeros:1: the line is longer than' convert zeros out.csr
printf '1 2 0.5\n' >half.txt
refused "half.txt:1: weight '0.5'" convert half.txt out.csr
make convert --weights none half.txt half.csr
head -c 70000 kron.csr >cut.csr
refused 'cut.csr: 70000 bytes where the header says' info cut.csr
refused 'cut.csr: 70000 bytes where the header says' convert cut.csr out.csr
refused 'are no graph file' info large.txt
refused 'not a graph file' info generated.txt
refused 'shows one file, 0 are named' info
refused 'no-such.csr: No such file' info no-such.csr
# An edge to a vertex that is not there: found by --check, and on the way to another file.
cp kron.csr damaged.csr
printf '\377\377\377\377' | dd of=damaged.csr bs=65536 seek=2 conv=notrunc 2>/dev/null
make info damaged.csr
refused 'which is not there' info --check damaged.csr
refused 'the input is damaged' convert damaged.csr out.csr
# A file that was there stays as it was.
refused 'mid.txt:2' convert mid.txt out.csr
cp kron.csr kept.csr
"$weir" graph convert mid.txt kept.csr >out 2>err && fail "half a file is accepted"
cmp kron.csr kept.csr || fail "a failed run changed the file"
if [[ -c /dev/full ]]; then
	status=0
	"$weir" graph info kron.csr >/dev/full 2>err || status=$?
	[[ $status == 2 && $(wc -l <err) == 1 ]] || fail "full disk: status $status"
fi
echo "ok - what is refused"

# ---------------------------------------------------------------- on a GPU

# Without a driver.
mkdir driver
printf 'not one\n' >driver/libcuda.so.1
LD_LIBRARY_PATH=$scratch/driver refused "leave --machine out" generate --kron 3 --machine cuda out.csr

ln -sf "${FAKECUDA:?the fake driver}" driver/libcuda.so.1
export LD_LIBRARY_PATH=$scratch/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export WEIR_GRAPH_KERNELS=${BUILD_DIR:?the build}/tests/fakecuda/libweir-graph-fake.so
export FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((256 << 20))

# alike OPTION...: the GPU's file is the CPU's, and so is what is printed.
alike() {
	make generate "$@" cpu.csr
	sed 's/cpu.csr/gpu.csr/' out >printed
	make generate "$@" --machine cuda gpu.csr
	cmp cpu.csr gpu.csr || fail "$*: the GPU makes another file"
	cmp printed out || fail "$*: the GPU prints something else"
}

alike --kron 10 --seed 3
alike --kron 12 --weights gen --threads 3
alike --uniform 9 --degree 40 --raw --weights gen
alike --kron 13 --memory 2MiB
FAKECUDA_DEVICES=3 make generate --kron 13 --machine cuda --device 2 gpu.csr
cmp cpu.csr gpu.csr || fail "another GPU makes another file"
refused "--device 1: no such device; machine 'cuda' has 0 to 0" generate --kron 3 --machine cuda \
	--device 1 out.csr
refused "--device is for --machine cuda" generate --kron 3 --device 0 out.csr
refused "--machine 'h200': write cuda" generate --kron 3 --machine h200 out.csr
refused "up to scale 32: leave scale 33 to the CPU" generate --kron 33 --machine cuda out.csr
refused "are too few to generate a graph" generate --kron 3 --memory 64KiB --machine cuda out.csr
refused "that the GPU has memory for at a time" generate --kron 14 --raw --memory 1250KiB \
	--degree 64 --machine cuda out.csr
FAKECUDA_DEVICES=-1 refused "shows this process no GPU" generate --kron 3 --machine cuda out.csr
FAKECUDA_HOST_BYTES=$((128 << 10)) refused "the GPU cannot generate the graph" generate --kron 18 \
	--machine cuda out.csr
WEIR_GRAPH_KERNELS=$scratch/none.so refused "no CUDA kernels" generate --kron 3 --machine cuda out.csr
echo "ok - on a GPU"

# ---------------------------------------------------------------- signals

# interrupted COMMAND...: in the background, where a shell has commands ignore SIGINT: env undoes that.
interrupted() {
	local pid tries status=0
	env --default-signal=INT "$weir" graph "$@" >out 2>err &
	pid=$!
	for ((tries = 0; tries < 100; tries++)); do
		[[ -n $(find . -name '.*.tmp') ]] && break
		sleep 0.1
	done
	sleep 0.3
	kill -s INT $pid
	wait $pid || status=$?
	[[ $status == 130 ]] || fail "graph $*: status $status after SIGINT"
	[[ $(wc -l <err) == 1 ]] || fail "graph $*: not one line after SIGINT"
	grep -q interrupted err || fail "graph $*: no word of an interrupt"
	[[ ! -e out.csr ]] || fail "graph $*: leaves a file after SIGINT"
	nothing_left
	echo "ok - SIGINT, $1"
}

interrupted generate --kron 25 out.csr
interrupted generate --kron 25 --machine cuda out.csr
mkfifo fifo
sleep 30 >fifo &
sleeper=$!
interrupted convert fifo out.csr
kill $sleeper
