/* SPDX-License-Identifier: GPL-2.0-only */
/* The compiled kernel side: opened, fitted to the machine, loaded and pinned. */
#ifndef BLKHIST_SOURCES_OBJECT_H
#define BLKHIST_SOURCES_OBJECT_H

#include "abi/abi.h"
#include "sources/kernel.h"
#include "sources/pins.h"

struct bpf_map;
struct bpf_object;

struct error *object_find_map(struct bpf_object *bpf, const char *name,
			      struct bpf_map **ret) must_check;
/* Sets a section of constants, before it is loaded. */
struct error *object_set_section(struct bpf_object *bpf, const char *name, const void *value,
				 size_t size) must_check;

/*
 * Adds how often the kernel has skipped a program: it counts that since 5.12, and skips since 6.2.
 */
struct error *program_skipped_runs(int fd, uint64_t *sum) must_check;

struct object;

/*
 * Loads the programs and maps. @meta says how large the maps are, and gets what the verifier said
 * of the programs.
 */
struct error *object_load(const struct live_paths *paths, const struct kernel_facts *kernel,
			  struct meta *meta, struct object **ret) must_check;
void object_destroyp(struct object **object);

int object_map(const struct object *object, enum pin_map map);

/* Pins maps and programs below @dir, which is created. */
struct error *object_pin(const struct object *object, const struct live_paths *paths,
			 const char *dir) must_check;

/* Tells the programs that all of them are attached. */
struct error *object_attached(const struct object *object) must_check;

#endif
