#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/long-functions finds functions that are longer than allowed, in C and in CUDA, methods too, and
# no others. Needs SOURCE_DIR.
#
# Labels: slow
set -u

: "${SOURCE_DIR:?is the source tree}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

cd "$dir" || exit 1
cat >a.c <<'END'
static const int table[] = {
	1,
	2,
	3,
};

int fits(int a)
{
	return a;
}

struct thing *too_long(int a,
		       int b)
{
	if (a) {
		b++;
	}
	return b;
}

int fits_again(void)
{
	return 0;
}
END
cat >b.cuh <<'END'
template <typename T> class box
{
      public:
	__device__ T get() const
	{
		return value;
	}
	__device__ T method(int a)
	{
		a++;
		return a;
	}
};
END
cat >expected <<'END'
a.c:14: too_long() has 6 lines, at most 3 are allowed
b.cuh:9: method() has 4 lines, at most 3 are allowed
END
if "$SOURCE_DIR/tools/long-functions" 3 a.c b.cuh >out || ! diff expected out; then
	echo "not ok - functions of more than 3 lines"
	exit 1
fi
if ! "$SOURCE_DIR/tools/long-functions" 6 a.c b.cuh; then
	echo "not ok - none has more than 6 lines"
	exit 1
fi
echo "ok - the functions that are too long are listed, and no others"
