/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints what the daemon's decoder says of every IBS sample in a perf.data: a line for each, KEY=VALUE words in
 * hexadecimal, led by the place of the sample in the file. Only for files neither compressed nor written to a pipe.
 * File format: tools/perf/Documentation/perf.data-file-format.txt; samples: perf_event_open(2).
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ibs_decode.h"

#define MAGIC "PERFILE2"

struct section {
	uint64_t offset, bytes;
};

struct file_header {
	char magic[8];
	uint64_t bytes, attr_bytes;
	struct section attrs, data;
};

struct file {
	unsigned char *data;
	size_t bytes;
};

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "ibs_dump: %s\n", what);
	exit(1);
}

static struct file read_file(const char *path)
{
	struct file file = { 0 };
	FILE *from = fopen(path, "rbe");
	long bytes = -1;

	if (!from || fseek(from, 0, SEEK_END) || (bytes = ftell(from)) < 0 || fseek(from, 0, SEEK_SET))
		give_up("can't read the file");
	file.data = malloc((size_t)bytes + 1);
	if (!file.data || fread(file.data, 1, (size_t)bytes, from) != (size_t)bytes)
		give_up("can't read the file");
	file.bytes = (size_t)bytes;
	fclose(from);
	return file;
}

static void get(const struct file *file, uint64_t at, void *ret, size_t bytes)
{
	if (at > file->bytes || bytes > file->bytes - at)
		give_up("the file ends too early");
	memcpy(ret, file->data + at, bytes);
}

static uint64_t get_u64(const struct file *file, uint64_t at)
{
	uint64_t value;

	get(file, at, &value, sizeof(value));
	return value;
}

/* Of the events with raw data; perf may open others, for what happens beside samples. */
static uint64_t find_sample_type(const struct file *file, const struct file_header *header)
{
	uint64_t found = 0, at, end = header->attrs.offset + header->attrs.bytes;

	for (at = header->attrs.offset; at + header->attr_bytes <= end; at += header->attr_bytes) {
		struct perf_event_attr attr = { 0 };

		get(file, at, &attr, offsetof(struct perf_event_attr, read_format));
		if (!(attr.sample_type & PERF_SAMPLE_RAW))
			continue;
		if (found && found != attr.sample_type)
			give_up("events with different sample types");
		found = attr.sample_type;
	}
	if (!found)
		give_up("no event with raw data");
	if (found & PERF_SAMPLE_READ)
		give_up("samples with counter values");
	return found;
}

/* Where the raw data of the sample at @at begins. */
static uint64_t find_raw(const struct file *file, uint64_t at, uint64_t type)
{
	static const uint64_t words[] = {
		PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,        PERF_SAMPLE_TID, PERF_SAMPLE_TIME,   PERF_SAMPLE_ADDR,
		PERF_SAMPLE_ID,         PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_PERIOD,
	};

	at += sizeof(struct perf_event_header);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		at += type & words[i] ? sizeof(uint64_t) : 0;
	if (type & PERF_SAMPLE_CALLCHAIN)
		at += (get_u64(file, at) + 1) * sizeof(uint64_t);
	return at;
}

static void print_op(const struct ibs_op *op)
{
	const char *source = ibs_source_name(op->source);

	printf(" caps=%x source=%s", op->caps, source ? source : "?");
#define FIELD(name) printf(" " #name "=%" PRIx64, (uint64_t)op->name)
	FIELD(rip);
	FIELD(completion_to_retire_cycles);
	FIELD(tag_to_retire_cycles);
	FIELD(op_flags);
	FIELD(linear);
	FIELD(physical);
	FIELD(branch_target);
	FIELD(data4);
	FIELD(access_flags);
	FIELD(miss_latency_cycles);
	FIELD(refill_latency_cycles);
	FIELD(control_flags);
	FIELD(current_count);
	FIELD(max_count);
	FIELD(width_bytes);
	FIELD(open_requests);
	FIELD(page_shift);
	FIELD(source_code);
	FIELD(source_flags);
	FIELD(latency_threshold_cycles);
#undef FIELD
	printf("\n");
}

static void dump_sample(struct ibs_decoder *decoder, const struct file *file, uint64_t at, uint64_t type)
{
	uint64_t raw = find_raw(file, at, type);
	struct ibs_op op;
	uint32_t bytes;
	int r;

	get(file, raw, &bytes, sizeof(bytes));
	raw += sizeof(bytes);
	if (raw > file->bytes || bytes > file->bytes - raw)
		give_up("the file ends too early");
	/* The kernel pads to a multiple of eight with the length before, and counts that in; all records are 4 above.
	 */
	r = ibs_decode(decoder, file->data + raw, bytes, &op);
	printf("offset=%" PRIx64, at);
	if (r)
		printf(" refused=%s\n", strerror(-r));
	else
		print_op(&op);
}

int main(int argc, char **argv)
{
	struct ibs_decoder_params params = { .kind = IBS_PMU_OP };
	struct perf_event_header event;
	struct file_header header;
	struct ibs_decoder decoder;
	struct file file;
	uint64_t type;

	if (argc != 4) {
		fprintf(stderr, "usage: ibs_dump FILE FAMILY MODEL\n");
		return 64;
	}
	params.family = (unsigned int)strtoul(argv[2], NULL, 0);
	params.model = (unsigned int)strtoul(argv[3], NULL, 0);
	ibs_decoder_init(&decoder, &params);
	file = read_file(argv[1]);
	get(&file, 0, &header, sizeof(header));
	if (memcmp(header.magic, MAGIC, sizeof(header.magic)) != 0 || header.attr_bytes < PERF_ATTR_SIZE_VER0)
		give_up("no perf.data of this machine's byte order");
	type = find_sample_type(&file, &header);
	for (uint64_t at = header.data.offset; at < header.data.offset + header.data.bytes; at += event.size) {
		get(&file, at, &event, sizeof(event));
		if (event.size < sizeof(event))
			give_up("an event without a size");
		if (event.type == PERF_RECORD_SAMPLE)
			dump_sample(&decoder, &file, at, type);
	}
	free(file.data);
	return 0;
}
