/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_rules: one key of one rule into a struct rule, checked. config.c, which knows the file, calls it; see
 * config_value.h for @where. Pure. All return 0, or -EINVAL with one line in the error of @where.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct config_where;
struct rule;

enum config_rule_type { RULE_KEY_UNKNOWN, RULE_KEY_TEXT, RULE_KEY_NUMBER, RULE_KEY_TRUTH };

/* What the key @name of a rule takes. */
enum config_rule_type config_rule_type(const char *name);

/* Refuse a key that rules don't have. */
int config_fail_rule_key(const struct config_where *where);

int config_put_rule_text(const struct config_where *where, struct rule *rule, const char *name, const char *value);
int config_put_rule_number(const struct config_where *where, struct rule *rule, const char *name, int64_t value);
int config_put_rule_truth(const struct config_where *where, struct rule *rule, const char *name, bool value);

/* After its last key: is it whole? */
int config_check_rule(const struct config_where *where, const struct rule *rule);
