/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The committed corpus of a fuzz target, run through it as a test. */
#ifndef CORPUS_H
#define CORPUS_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

/* Gives each file of corpus/NAME, beside the sources, to @input; at least @least. */
static inline void corpus_run(const char *name, int (*input)(const uint8_t *data, size_t len),
			      int least)
{
	const char *slash = strrchr(__FILE__, '/');
	static uint8_t data[1 << 16];
	char dir[4096], path[4400];
	struct dirent *d;
	int files = 0;
	FILE *f;
	DIR *all;

	snprintf(dir, sizeof(dir), "%.*scorpus/%s",
		 slash ? (int)(slash + 1 - __FILE__) : 0, __FILE__, name);
	all = opendir(dir);
	CHECK(all, "%s", dir);
	while (all && (d = readdir(all))) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		f = fopen(path, "rb");
		CHECK(f, "%s", path);
		if (!f)
			continue;
		input(data, fread(data, 1, sizeof(data), f));
		fclose(f);
		files++;
	}
	if (all)
		closedir(all);
	CHECK(files >= least, "%d files", files);
}

#endif
