/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions that invite mistakes, given to every file of the user side by the build (-include).
 * Numbers are parsed by core/units.h, strings built by core/buf.h or xasprintf().
 */
#ifndef BLKHIST_CORE_BANNED_H
#define BLKHIST_CORE_BANNED_H

/* The declarations must come first: a poisoned name may not even be declared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison atoi atol atoll atof strcpy strcat sprintf vsprintf gets localtime gmtime ctime \
	asctime strtok

#endif
