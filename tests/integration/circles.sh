#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The library's files do not depend on each other in circles, but for those that tools/circles lists,
# and include what is in lower folders alone; and that script finds a circle in an archive and an
# include in a folder that are made for it. Needs SOURCE_DIR, BUILD_DIR and CC.
#
# Labels: slow
set -u

: "${SOURCE_DIR:?is the source tree}" "${BUILD_DIR:?is the build}" "${CC:=cc}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

"$SOURCE_DIR/tools/circles" "$BUILD_DIR" || exit 1
echo "ok - no circle that is not listed, and no include of what is not below"

mkdir "$dir/planted" && cd "$dir/planted" || exit 1
echo 'int b(void); int a(void); int a(void) { return b(); }' >a.c
echo 'int c(void); int b(void); int b(void) { return c(); }' >b.c
echo 'int a(void); int c(void); int c(void) { return a(); }' >c.c
for file in a b c; do
	"$CC" -c "$file.c" -o "$file.c.o" || exit 1
done
ar rc libweir_internal.a a.c.o b.c.o c.c.o || exit 1
"$SOURCE_DIR/tools/circles" . >out
if ! grep -q '^circle: a.c, b.c, c.c$' out || ! grep -q '^  c.c uses of a.c: a$' out; then
	echo "not ok - a circle that was planted is not found"
	sed 's|^|# |' out
	exit 1
fi
echo "ok - a circle that was planted is found"

mkdir -p src/base src/cost src/backend/sim || exit 1
echo '#include "src/base/b.h"' >src/cost/below.c
echo '#include "src/backend/b.h"' >src/cost/above.c
echo '#include "src/backend/b.h"' >src/backend/sim/beside.c
ar d libweir_internal.a c.c.o || exit 1
"$SOURCE_DIR/tools/circles" . src >out
if [ $? -ne 1 ] || [ "$(grep -c '^not below: ' out)" -ne 1 ] ||
	! grep -q '^not below: src/cost/above.c includes src/backend/$' out; then
	echo "not ok - an include that was planted is not found, or one that is allowed is"
	sed 's|^|# |' out
	exit 1
fi
echo "ok - an include of what is not below is found"
