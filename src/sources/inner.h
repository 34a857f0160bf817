/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inner maps: the blocks of one device's counters, or of its baseline. Each is pinned by its id, as
 * opening a map by id alone needs more than CAP_BPF.
 */
#ifndef BLKHIST_SOURCES_INNER_H
#define BLKHIST_SOURCES_INNER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "core/error.h"

/* Creates a map of zeroed blocks. @varying: for a baseline, whose number of blocks may differ. */
struct error *inner_create(unsigned int n_blocks, bool varying, int *ret) must_check;

struct error *inner_id(int fd, uint32_t *ret) must_check;
struct error *inner_write(int fd, unsigned int index, const struct hist_block *block) must_check;
/* Reads @n_blocks blocks from the start. */
struct error *inner_read(int fd, unsigned int n_blocks, struct hist_block *ret) must_check;
/* The number of blocks of a map. */
struct error *inner_size(int fd, unsigned int *ret) must_check;

/* Bytes that the kernel charges for a map. */
struct error *map_memory(int fd, uint64_t *ret) must_check;

#endif
