#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Install what was built, move it elsewhere, and use it as a stranger would: what the libraries show
# and need, the public headers in C and C++, programs through pkg-config and CMake, linked both ways,
# the program with a machine by name. Then nothing is left of it. Needs SOURCE_DIR and BUILD_DIR, whose
# target `product` is built; CC names the compiler.
#
# Labels: slow
set -euo pipefail

source=${SOURCE_DIR:?the source tree} build=${BUILD_DIR:?the build tree}
if [ -n "${WEIR_SANITIZE-}" ]; then
	exit 0 # such a build is not installed
fi
cc=${CC:-cc}
users=$source/tests/integration/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
strict=(-Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror)
unset WEIR_MACHINE_PATH LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH

bad() {
	echo "FAILED: $*"
	failed=1
}

# install_to FOLDER: as `make install DESTDIR=FOLDER PREFIX=/opt/weird` does.
install_to() {
	DESTDIR=$1 cmake --install "$build" --prefix /opt/weird >"$work/log" 2>&1 || {
		cat "$work/log"
		exit 1
	}
}

# left FOLDER: files, links and folders of weir's own that are below it.
left() {
	find "$1" '(' ! -type d -o -name weir ')' -printf '%P\n' | sort
}

install_to "$work/stage"
prefix=$work/moved
mv "$work/stage/opt/weird" "$prefix"
[ -z "$(left "$work/stage")" ] || bad "installed beside the prefix: $(left "$work/stage")"
lib=$(dirname "$(find "$prefix" -name libweir.so)")

# ---------------------------------------------------------------- what is there

if grep -rlaF -e "$source" -e "$build" "$prefix"; then
	bad "these files name the source or the build tree"
fi
for file in bin/weir share/doc/weir/LICENSE share/doc/weir/README.md \
	share/doc/weir/examples/machine_file.c include/weir/paging/view.h include/weir/device.cuh; do
	[ -e "$prefix/$file" ] || bad "$file is not installed"
done
for machine in "$source"/machines/*.json; do
	[ -e "$prefix/share/weir/machines/${machine##*/}" ] ||
		bad "machine ${machine##*/} is not installed"
done
for policy in "$source"/policies/*.[ch] "$build"/policies/*.o; do
	[ ! -e "$policy" ] || [ -e "$prefix/share/weir/policies/${policy##*/}" ] ||
		bad "policy ${policy##*/} is not installed"
done
for page in "$build"/man/*.[1-8]; do
	[ -e "$prefix/share/man/man${page##*.}/${page##*/}" ] || bad "${page##*/} is not installed"
	while read -r document; do
		[ -e "$prefix/share/doc/weir/$document" ] ||
			bad "${page##*/} names $document, which is not installed"
	done < <(sed 's/\\//g' "$page" | grep -oE 'docs/[a-z-]+\.md' | sort -u)
done

# ---------------------------------------------------------------- libraries

# needs LIBRARY PATTERN: it needs libraries that match alone.
needs() {
	while read -r needed; do
		case $needed in
		libc.so.* | libm.so.* | libpthread.so.* | ld-linux*) ;;
		*) [[ $needed =~ ^($2)$ ]] || bad "$1 needs $needed" ;;
		esac
	done < <(readelf -d "$lib/$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	readelf -d "$lib/$1" | grep -q "(SONAME).*\\[$1\\.[0-9]" || bad "$1 has no versioned SONAME"
}
# The in-process library is loaded into other programs: it needs libc's own libraries alone.
needs libweir.so nothing
needs libweir-machine.so 'libweir\.so\..*|libjansson\.so\..*|libdl\.so\..*'

# declares HEADER...: functions that they declare, and those of headers that they include.
declares() {
	printf '#include "weir/%s"\n' "$@" | "$cc" -std=c11 -D_GNU_SOURCE -I"$prefix/include" -E -P -x c - |
		tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
		grep -oE '\bweir_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u
}
# shows NAME: both kinds of library show what the headers declare: no less, no more.
shows() {
	nm -D --defined-only --no-weak "$lib/$1.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
		sort -u >"$work/shared"
	nm -g --defined-only "$lib/$1.a" | awk 'NF == 3 { print $3 }' | sort -u >"$work/static"
	for kind in shared static; do
		while read -r name; do
			bad "declared, not in the $kind $1: $name"
		done < <(comm -23 "$work/declared" "$work/$kind")
		while read -r name; do
			bad "in the $kind $1, not declared: $name"
		done < <(comm -13 "$work/declared" "$work/$kind")
	done
}
declares explain.h paged.h policy.h replica.h trace.h >"$work/declared"
cp "$work/declared" "$work/declared_weir"
shows libweir
declares explain.h machine_file.h paged.h policy.h replica.h trace.h | comm -23 - "$work/declared_weir" >"$work/declared"
shows libweir-machine

# ---------------------------------------------------------------- headers

# Each on its own; .cuh are for nvcc.
while read -r header; do
	echo "#include <$header>" >"$work/header.c"
	"$cc" -std=c11 "${strict[@]}" -I"$prefix/include" -fsyntax-only "$work/header.c" ||
		bad "$header in C"
	g++ -std=c++17 -x c++ "${strict[@]}" -I"$prefix/include" -fsyntax-only "$work/header.c" ||
		bad "$header in C++"
done < <(cd "$prefix/include" && find weir -name '*.h')

# ---------------------------------------------------------------- programs

export PKG_CONFIG_PATH=$lib/pkgconfig
read -ra cflags <<<"$(pkg-config --cflags weir-machine)"
read -ra libs <<<"$(pkg-config --libs weir-machine)"
read -ra plain_libs <<<"$(pkg-config --libs weir)"
read -ra private <<<"$(pkg-config --static --libs weir-machine | sed -E 's/-lweir(-machine)?( |$)/ /g')"

# A machine that is only where weir was moved to.
sed 's/"name": "laptop"/"name": "moved"/' "$source/machines/laptop.json" \
	>"$prefix/share/weir/machines/moved.json"

"$cc" -std=c11 "${strict[@]}" "${cflags[@]}" "$users/plain.c" -o "$work/plain" "${plain_libs[@]}" ||
	bad "a C program with libweir alone does not build"
"$cc" -std=c11 "${strict[@]}" "${cflags[@]}" "$users/user.c" -o "$work/dynamic" "${libs[@]}" ||
	bad "a C program does not build"
g++ -std=c++17 "${strict[@]}" "${cflags[@]}" "$users/user.cc" -o "$work/cxx" "${libs[@]}" ||
	bad "a C++ program does not build"
"$cc" -std=c11 "${cflags[@]}" "$users/user.c" -o "$prefix/bin/static" "$lib/libweir-machine.a" \
	"$lib/libweir.a" "${private[@]}" || bad "a static C program does not build"
if ! {
	cmake -S "$users" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" &&
		cmake --build "$work/cmake"
} >"$work/log" 2>&1; then
	cat "$work/log"
	bad "a project that finds the package does not build"
fi

version=$(pkg-config --modversion weir)
# prints COMMAND...: it prints the version.
prints() {
	local got
	got=$(cd / && "$@") || bad "$* fails"
	[ "$got" = "$version" ] || bad "$* says version $got, pkg-config $version"
}
for program in "$work/dynamic" "$work/cmake/user" "$prefix/bin/static"; do
	LD_LIBRARY_PATH=$lib prints "$program" moved "$work/written.json"
done
LD_LIBRARY_PATH=$lib prints "$work/cxx" moved
LD_LIBRARY_PATH=$lib prints "$work/plain"
prints "$work/cmake/plain"
for machine in moved "$work/written.json"; do
	(cd / && "$prefix/bin/weir" info --machine "$machine" --json >"$work/log" 2>&1) || {
		cat "$work/log"
		bad "the program does not find $machine"
	}
done
(cd / && "$build/weir" info --machine laptop >"$work/log" 2>&1) || {
	cat "$work/log"
	bad "the program in the build tree does not find the source tree's machines"
}
rm -f "$prefix/bin/static" "$prefix/share/weir/machines/moved.json"

# ---------------------------------------------------------------- and away

"$source/tools/uninstall" "$prefix"
[ -z "$(left "$prefix")" ] || bad "uninstall left: $(left "$prefix")"

# What others put there stays; installing twice is like installing once.
install_to "$work/stage"
touch "$work/stage/opt/weird/include/weir/mine.h"
install_to "$work/stage"
DESTDIR=$work/stage "$source/tools/uninstall" /opt/weird
[ "$(left "$work/stage" | tr '\n' ' ')" = "opt/weird/include/weir opt/weird/include/weir/mine.h " ] ||
	bad "uninstall left, or took away: $(left "$work/stage")"
if "$source/tools/uninstall" "$prefix" 2>/dev/null; then
	bad "uninstalling what is not installed succeeds"
fi

exit $failed
