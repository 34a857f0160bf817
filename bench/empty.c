// SPDX-License-Identifier: GPL-2.0-only
/* Keeps the empty programs attached until it is killed. */
#include <stdio.h>
#include <unistd.h>

#include "empty.skel.h"

int main(void)
{
	struct empty *skel = empty__open_and_load();

	if (!skel || empty__attach(skel)) {
		fprintf(stderr, "cannot attach the empty programs\n");
		return 1;
	}
	pause();
	return 0;
}
