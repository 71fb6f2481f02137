/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a configuration file or, behind an '@', as KEY=VALUE of tune. What is accepted must be within the table
 * and survive being shown and set again; what is refused must leave the result alone and be said in one line.
 *
 * A good corpus to start with: tests/unit/config.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_edit.h"
#include "fuzz_main.h"

#define MUST(condition)                                                                 \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static void check_error(const char *error)
{
	size_t len = strnlen(error, CONFIG_ERROR_MAX);

	MUST(len > 0 && len < CONFIG_ERROR_MAX);
	for (size_t i = 0; i < len; i++)
		MUST((unsigned char)error[i] >= ' ' && error[i] != 0x7f);
}

static void check_config(const struct config *config)
{
	char text[4096], error[CONFIG_ERROR_MAX];

	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		const void *slot = (const char *)config + option->offset;
		struct config again = *config;

		if (option->type == OPTION_TYPE_INT)
			MUST(*(const int64_t *)slot >= option->min && *(const int64_t *)slot <= option->max);
		if (option->type == OPTION_TYPE_FLOAT)
			MUST(*(const double *)slot >= option->min && *(const double *)slot <= option->max);
		MUST(config_get_text(config, option, text, sizeof(text)) >= 0);
		MUST(config_set(&again, option->key, text, error) == 0);
		/* A fraction of more than 17 digits is shown rounded. */
		if (option->type != OPTION_TYPE_FLOAT)
			MUST(memcmp(&again, config, sizeof(again)) == 0);
	}
}

/* What is a configuration can be edited: any option, back to its default. */
static void check_edit(const char *text)
{
	char error[CONFIG_ERROR_MAX] = "", *edited = NULL;
	struct config defaults;

	config_defaults(&defaults);
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];

		/* With the others as they are it may be refused, but never for how the text looks. */
		if (config_edit(text, "FILE", &option, 1, &defaults, &edited, error) < 0) {
			MUST(!strstr(error, "it can't be edited") && !strstr(error, "by hand"));
			continue;
		}
		free(edited);
	}
}

static void fuzz_file(const char *text)
{
	char error[CONFIG_ERROR_MAX];
	struct config config, untouched;

	memset(&config, 0x5a, sizeof(config));
	memset(&untouched, 0x5a, sizeof(untouched));
	memset(error, 0, sizeof(error));
	if (config_parse(text, "FILE", &config, error) == 0) {
		check_config(&config);
		check_edit(text);
		return;
	}
	check_error(error);
	MUST(memcmp(&config, &untouched, sizeof(config)) == 0);
}

static void fuzz_tune(char *text)
{
	char error[CONFIG_ERROR_MAX], *value = strchr(text, '=');
	struct config config, untouched;

	if (!value)
		return;
	*value++ = '\0';
	config_defaults(&config);
	untouched = config;
	memset(error, 0, sizeof(error));
	if (config_set(&config, text, value, error) == 0) {
		check_config(&config);
		return;
	}
	check_error(error);
	MUST(memcmp(&config, &untouched, sizeof(config)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	if (text[0] == '@')
		fuzz_tune(text + 1);
	else
		fuzz_file(text);
	free(text);
	return 0;
}
