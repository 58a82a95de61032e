/* SPDX-License-Identifier: Apache-2.0 */
/* The least that uses the library: prints its version. */
#include <stdio.h>

#include <weir/weir.h>

int main(void)
{
	return puts(weir_version()) < 0 || weir_strerror(WEIR_ETRAP) == NULL;
}
