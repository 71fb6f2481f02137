/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_main: what a fuzz target is called by: libFuzzer, or, with FUZZ_STANDALONE, a main() that replays the files it
 * is given (a corpus, a finding) with any compiler. Included once, by the target.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef FUZZ_STANDALONE
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_INPUT_MAX (1 << 20)

int main(int argc, char **argv)
{
	uint8_t *buf = malloc(FUZZ_INPUT_MAX);

	if (!buf)
		return 1;
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rbe");
		size_t n, tight_bytes;
		uint8_t *tight;

		if (!f) {
			perror(argv[i]);
			free(buf);
			return 1;
		}
		n = fread(buf, 1, FUZZ_INPUT_MAX, f);
		fclose(f);
		/* Of just its size, so that a sanitizer sees what is read behind it. */
		tight_bytes = n ? n : 1;
		tight = malloc(tight_bytes);
		if (!tight)
			abort();
		for (size_t j = 0; j < n; j++)
			tight[j] = buf[j];
		LLVMFuzzerTestOneInput(tight, n);
		free(tight);
	}
	printf("%d inputs replayed\n", argc - 1);
	free(buf);
	return 0;
}
#endif
