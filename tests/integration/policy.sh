#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir policy` from the outside: what list and check show, of contexts that are made up and of those
# of a trace, and what they refuse, in one line that says where: damaged traces; objects that are cut or of another kind, without a hook, of another version, with maps
# or calls that are not there; and what a trial finds. And that the program of docs/policies.md
# compiles and passes. Needs WEIR, SOURCE_DIR, BUILD_DIR and python3; where no clang compiles for
# eBPF, no objects are looked at. Prints a line a test.
#
# Labels: sanitized-only
set -u

: "${WEIR:?is the program to test}" "${BUILD_DIR:?is the build}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"
cd "$dir" || exit 1

# policy ARGS...: `weir policy` into out; the status must be 0, and nothing on standard error.
policy()
{
	if ! "$WEIR" policy "$@" >out 2>err || [ -s err ]; then
		fail "policy $* exits with $?" out err
	fi
}

# refused PATTERN ARGS...: status 2, one line with the pattern.
refused()
{
	pattern=$1
	shift
	"$WEIR" policy "$@" >out 2>err
	status=$?
	[ $status -eq 2 ] || fail "policy $* exits with $status" err
	[ "$(wc -l <err)" -eq 1 ] || fail "policy $*: not one line" err
	has err "^weir: .*$pattern"
	echo "ok - $(cut -c 1-150 err)"
}

for command in "" list check; do
	# shellcheck disable=SC2086 # one word or none
	policy $command --help
	has out '^usage: weir policy'
done
policy list
has out '^lru \(victim\)  what was used longest ago' '^tree \(fault\)' '^    threshold=51  percent'
policy check tree:threshold=20 --contexts 100
has out '^    threshold=20 ' '^fault +100 +0 +0 '
refused "tunable threshold is given twice" check tree:threshold=5,threshold=6
refused "'' is not of the form NAME=VALUE" check tree:
refused "'' is not of the form NAME=VALUE" check tree:threshold=5,
refused "control character" check "$(printf 'a\nb.o')"
refused "control character" check "$(printf 'tree:thre\nshold=5')"
refused "no command 'a[?]b'" "$(printf 'a\nb')"
refused "a[?]b: No such file" list "$(printf 'a\nb')"
refused 'needs a command'
refused 'no command .chek.; did you mean check' chek
refused 'needs a policy' check
refused 'takes one name, 2 are given' check lru tree
refused "no built-in policy 'fifth'" check fifth
refused "policy tree has no tunable 'least'" check tree:least=3
refused "policy tree: tunable threshold: 'x' is no unsigned integer of 4 bytes" check tree:threshold=x
refused '0: not a number from 1' check lru --contexts 0
refused '/none: No such file' list "$dir/none"
refused 'none.o: No such file' check none.o

# What a recorded program did.
WEIR_TRACE=run.trace "$WEIR" bench gcn --machine rtx5090 --nodes 100k --gpu-budget 50% \
	--manager weir --epochs 1 >out 2>err || fail "a traced bench exits with $?" err
policy check lru --trace run.trace
has out '^run.trace under uvm on rtx5090 with [0-9.]+ GB; a decision may take 100000 instructions$' \
	'^hook +decisions +answers +defaults +wrong +instructions at most' \
	'^victim +([1-9][0-9]*) +[1-9][0-9]* +0 +0 +0 +0 '
policy check tree --trace run.trace --gpu-budget 80% --machine h200
has out ' on h200 with ' '^fault +[1-9]'
policy check next_use --trace run.trace --manager weir --json
has out '"manager": "weir"' '"trace": "run.trace"' '"machine": "rtx5090"' '"gpu_budget_bytes": [1-9]'
policy check second_use --trace run.trace
has out '^run.trace under weir ' '^admit +[1-9]'
# As many decisions as the replay counts.
"$WEIR" replay run.trace --manager uvm --policy lru --json replay.json >out 2>err ||
	fail "replay exits with $?" err
asked=$(sed -n 's/.*"victim":{"asked":\([0-9]*\),.*/\1/p' replay.json)
policy check lru --trace run.trace
has out "^victim +$asked +$asked +0 "
head -c 3000 run.trace >cut.trace
refused 'cut.trace: the trace is cut off' check lru --trace cut.trace
refused 'none.trace: No such file' check lru --trace none.trace
refused "manager 'malloc': takes no decisions" check lru --trace run.trace --manager malloc
refused "no machine 'nowhere'|nowhere" check lru --trace run.trace --machine nowhere
refused 'gpu-budget: .* of a memory of 3' check lru --trace run.trace --gpu-budget 1TB
refused "gpu-budget '-1'" check lru --trace run.trace --gpu-budget=-1
refused 'machine is for --trace' check lru --machine rtx5090
refused 'contexts is for contexts that are made up' check lru --trace run.trace --contexts 5
echo "ok - decisions about what a recorded program did"

if [ ! -d "$BUILD_DIR/policies" ]; then
	echo "ok - no objects here: the rest is not looked at"
	exit 0
fi

policy list "$BUILD_DIR/policies" --json
cp out list.json
policy check "$BUILD_DIR/policies/tree.o:threshold=20" --contexts 200 --seed 5 --json
python3 - <<'END' || fail "JSON that does not fit" out list.json
import json

listed = {p["policy"].rsplit("/")[-1]: p for p in json.load(open("list.json"))}
for name in "lru", "tree", "whole":
    built, loaded = listed[name], listed[name + ".o"]
    assert all(built[key] == loaded[key] for key in ("help", "hooks", "tunables")), name
tree = json.load(open("out"))
assert tree["tunables"][0]["value"] == 20 and tree["seed"] == 5
cost = tree["costs"]["fault"]
assert list(tree["costs"]) == ["fault"] and cost["decisions"] == 200
assert 0 < cost["mean_instructions"] <= cost["max_instructions"] < 100000
END
policy check "$BUILD_DIR/policies/lru.o" --trace run.trace --json
python3 - "$asked" <<'END' || fail "JSON of a trace that does not fit" out
import json
import sys

cost = json.load(open("out"))["costs"]["victim"]
assert cost["decisions"] == cost["answers"] == int(sys.argv[1])
assert cost["defaults"] == cost["wrong"] == 0
assert 0 < cost["mean_instructions"] <= cost["max_instructions"] < 100000
END
echo "ok - list and check of objects"

# compile NAME: what is on standard input, to NAME.o.
compile()
{
	cat >"$1.c"
	clang -O2 -g -target bpf -mcpu=v3 -ffreestanding -I"$SOURCE_DIR/include" -c "$1.c" \
		-o "$1.o" >log 2>&1 || fail "$1.c does not compile" log
}

# hook NAME: a file of a policy whose weir_moved() has what is on standard input in it.
hook()
{
	{
		echo '#include <weir/policy.h>'
		echo 'WEIR_POLICY_ARRAY(uint64_t, seen, 8)'
		echo 'extern void other(void);'
		echo 'int weir_moved(struct weir_policy_moved *q)'
		echo '{'
		cat
		echo 'return 0;'
		echo '}'
		echo "WEIR_POLICY_PROGRAM($1, \"does it\", .moved = weir_moved)"
	} | compile "$1"
}

echo 'seen[q->came]++;' | hook good
policy check good.o --contexts 50
has out '^good.o  does it$' '^moved +50 +[1-9]'
mkdir folder
cp good.o folder
echo 'no object' >folder/other.o
"$WEIR" policy list folder >out 2>err && fail "a file that is no object is listed" out
has err '^weir: folder/other.o: not an object file'
has out '^folder/good.o \(moved\)  does it$'

sed 's/does it/does\\nthat\\33[2J/' good.c | compile lines
policy check lines.o --contexts 50
has out '^lines.o  does[?]that[?]\[2J$'

# A hook that writes over its help, and over the zero at its end.
compile writes <<'END'
#include <weir/policy.h>
const volatile uint32_t weir_policy_version = WEIR_POLICY_VERSION;
char weir_policy_help[16] = "does it";
int weir_moved(struct weir_policy_moved *q)
{
	for (uint32_t i = 0; i < 16; i++)
		weir_policy_help[i] = '!';
	return 0;
}
END
policy check writes.o --contexts 50
has out '^writes.o  $'

# What is no policy.
head -c 900 good.o >cut.o
refused 'cut.o: the file is cut' check cut.o
echo 'int main(void) { return 0; }' >host.c
${CC:-cc} -c host.c -o host.o || fail "cc"
refused 'host.o: not an eBPF object' check host.o
echo 'int weir_moved(void *q) { return !q; }' | compile bare
refused 'bare.o: no policy: it has no WEIR_POLICY_PROGRAM' check bare.o
sed 's/weir_moved/weir_move/; s/, .moved = .*/)/' good.c | compile missing
refused 'missing.o: it has none of the hooks' check missing.o
{
	echo '#include <weir/policy.h>'
	echo '#undef WEIR_POLICY_VERSION'
	echo '#define WEIR_POLICY_VERSION 7'
	sed 1d good.c
} | compile newer
refused 'newer.o: it was compiled with version 7' check newer.o
echo 'other();' | hook calls
refused 'calls.o: weir_moved, instruction 0, calls.c:6: it calls other, which it does not' check calls.o
echo '((int (*)(int))6)(1);' | hook number
refused 'number.o: weir_moved, instruction [0-9]+, number.c:6: a call of helper number 6' check number.o
sed 's/^int/struct { int (*type)[2]; } map __attribute__((section(".maps")));\nint/' good.c |
	compile maps
refused 'maps.o: it has maps' check maps.o
sed 's/^int/extern uint64_t elsewhere;\nint/; s/^seen.*/seen[0] = elsewhere;/' good.c |
	compile defined
refused 'defined.o: weir_moved, instruction 0, defined.c:7: elsewhere is used and defined nowhere' check defined.o

# What a trial finds.
echo 'seen[q->now]++;' | hook outside
refused 'outside.o: weir_moved, instruction [0-9]+, outside.c:6: load of 8 bytes at offset [0-9]+ of a region of 64' check outside.o
echo 'for (;;) seen[0]++;' | hook forever
refused 'forever.o: weir_moved, instruction [0-9]+, forever.c:6: its budget of instructions is used up' check forever.o
sed 's/^int weir_moved.*/int weir_victim(struct weir_policy_victim *q)/
	s/^seen.*/q->chosen = 31;/; s/return 0/return WEIR_POLICY_ANSWER/' good.c | compile answers
refused 'answers.o: weir_victim: chosen is 31 of [0-9]+ candidates' check answers.o
sed 's/chosen = 31/chosen = 41/' answers.c | compile beyond
refused 'beyond.o is detached, .*16 of its answers were out of range, the last one of victim .in the replay' \
	check beyond.o --trace run.trace
echo 'weir_policy_log("moved", q->block);' | hook logs
policy check logs.o --contexts 50

# The manual's.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$SOURCE_DIR/docs/policies.md" | compile manual
policy check manual.o
has out '^(admit|victim|fault|moved) +10000 '
echo "ok - the program of docs/policies.md"
