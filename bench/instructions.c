// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads blocks of 4 KiB of a device, one after the other, each from a random place and past the
 *page cache, and prints what that took, in ns of a machine that executes one instruction per ns:
 *
 *	instructions DEVICE WARM-UP READS
 *
 *	expected	instructions of a loop that is known,
 *	loop		and what the clock says of them: without counting of instructions something
 *else total		of READS reads, after WARM-UP others: of all that the machine did meanwhile
 *	own		of these, what was in this process; the rest was in others
 *	sleeps		how many times this process waited: the clock runs while nothing does
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define TURNS 2000000L
#define INSTRUCTIONS_PER_TURN 2

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long sleeps(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_nvcsw;
}

/* The least of several: what the kernel still has to do after the observer's start is not the
 * clock. */
static long long known_loop(void)
{
	long long least = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		long turns = TURNS;
		long long began = now(CLOCK_MONOTONIC);

		__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
		long long took = now(CLOCK_MONOTONIC) - began;

		least = took < least ? took : least;
	}
	return least;
}

/* Few instructions of its own: a generator of Knuth's, whose upper bits are the random ones. */
static void read_blocks(int fd, void *buf, off_t blocks, long n)
{
	static uint64_t state = 1;

	while (n--) {
		state = state * 6364136223846793005ULL + 1442695040888963407ULL;
		if (pread(fd, buf, BLOCK, (off_t)((state >> 33) % blocks) * BLOCK) != BLOCK)
			err(1, "cannot read");
	}
}

int main(int argc, char *argv[])
{
	void *buf;

	if (argc != 4)
		errx(2, "instructions DEVICE WARM-UP READS");
	int fd = open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", argv[1]);
	off_t blocks = lseek(fd, 0, SEEK_END) / BLOCK;

	if (blocks <= 0 || posix_memalign(&buf, BLOCK, BLOCK) || mlockall(MCL_CURRENT))
		errx(1, "%s is empty, or there is no memory", argv[1]);
	long reads = atol(argv[3]);
	long long loop = known_loop();

	read_blocks(fd, buf, blocks, atol(argv[2]));
	long slept = sleeps();
	long long began = now(CLOCK_MONOTONIC), own = now(CLOCK_PROCESS_CPUTIME_ID);

	read_blocks(fd, buf, blocks, reads);
	own = now(CLOCK_PROCESS_CPUTIME_ID) - own;
	printf("{\"expected\": %ld, \"loop\": %lld, \"total\": %lld, \"own\": %lld, \"sleeps\": %ld}\n",
	       TURNS * INSTRUCTIONS_PER_TURN, loop, now(CLOCK_MONOTONIC) - began, own,
	       sleeps() - slept);
	return 0;
}
