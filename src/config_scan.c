/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config_scan.h"

/* Ours needs 2. We recurse here, and so do libconfig's parser and destructor. */
#define DEPTH_MAX 16

/* Ours needs 40; it bounds the search for one that stands there twice. */
#define SETTINGS_MAX 512

/* How much of a token is shown in a message. */
#define SHOWN_MAX 40

enum kind {
	END,
	NAME,
	INTEGER,
	FLOAT,
	STRING,
	MARK, /* any other character, which stands for itself */
	FAULT
};

struct token {
	enum kind kind;
	const char *start;
	size_t len;
	int line; /* where it begins */
};

struct setting {
	const struct setting *owner; /* the setting around, NULL: top level */
	int group;                   /* which { } it stands in */
	struct token name;
};

struct scan {
	const char *p;
	int line;
	const char *fault;   /* of a FAULT */
	struct token token;  /* the one that is looked at; the text behind it begins at p */
	int depth, n_groups; /* inside how many, and how many so far */
	int n_settings;
	struct setting settings[SETTINGS_MAX];
	struct config_scan_fault *ret;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool is_name_start(char c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '*';
}

static bool is_name(char c)
{
	return is_name_start(c) || is_digit(c) || c == '-' || c == '_';
}

static void skip_line(struct scan *s)
{
	s->p += strcspn(s->p, "\n");
}

/* false: it has no end. */
static bool skip_comment(struct scan *s)
{
	const char *end = strstr(s->p + 2, "*/");

	if (!end)
		return false;
	for (; s->p < end; s->p++)
		s->line += *s->p == '\n';
	s->p += 2;
	return true;
}

/* Needs a digit, though libconfig takes "." and "-.e1" for 0. */
static bool starts_number(const char *p)
{
	if (*p == '-' || *p == '+')
		p++;
	return is_digit(*p) || (*p == '.' && is_digit(p[1]));
}

/* The grammar of numbers is that of libconfig's scanner.l. */
static enum kind take_number(struct scan *s)
{
	const char *p = s->p;

	if (p[0] == '0' && (p[1] | 0x20) == 'x' && is_hex(p[2])) {
		for (p += 2; is_hex(*p); p++)
			;
		s->p = p;
		return INTEGER;
	}
	if (*p == '-' || *p == '+')
		p++;
	while (is_digit(*p))
		p++;

	bool is_float = *p == '.';
	const char *e;

	if (is_float)
		for (p++; is_digit(*p); p++)
			;
	e = p;
	if ((*e | 0x20) == 'e') {
		e++;
		if (*e == '-' || *e == '+')
			e++;
		if (is_digit(*e)) {
			is_float = true;
			for (p = e; is_digit(*p); p++)
				;
		}
	}
	s->p = p;
	return is_float ? FLOAT : INTEGER;
}

/* 0 or what is wrong with it. */
static const char *skip_string(struct scan *s)
{
	for (s->p++; *s->p != '"'; s->p++) {
		if (*s->p == '\\') {
			if (strncmp(s->p, "\\x00", 4) == 0)
				return "\\x00 would end the text there; take it out";
			s->p++;
		}
		if (!*s->p)
			return "a text begins here and never ends: add the closing \"";
		s->line += *s->p == '\n';
	}
	s->p++;
	return NULL;
}

static struct token fault(struct scan *s, struct token token, const char *what)
{
	token.kind = FAULT;
	s->fault = what;
	return token;
}

static struct token next_token(struct scan *s)
{
	struct token token = { 0 };

	for (;;) {
		token.line = s->line;
		if (s->p[0] == '#' || (s->p[0] == '/' && s->p[1] == '/')) {
			skip_line(s);
		} else if (s->p[0] == '/' && s->p[1] == '*') {
			if (!skip_comment(s))
				return fault(s, token, "a comment begins here and never ends: add */");
		} else if (*s->p == '\n') {
			s->line++;
			s->p++;
		} else if (*s->p && strchr(" \t\r\f", *s->p)) {
			s->p++;
		} else {
			break;
		}
	}
	token.start = s->p;
	if (!*s->p) {
		token.kind = END;
	} else if (is_name_start(*s->p)) {
		token.kind = NAME;
		while (is_name(*s->p))
			s->p++;
	} else if (*s->p == '"') {
		const char *what = skip_string(s);

		if (what)
			return fault(s, token, what);
		token.kind = STRING;
	} else if (starts_number(s->p)) {
		token.kind = take_number(s);
	} else {
		token.kind = MARK;
		s->p++;
	}
	token.len = (size_t)(s->p - token.start);
	return token;
}

/* Does it fit 32 bits as libconfig 1.5 reads them: decimal with its sign, hexadecimal as a positive number? */
static bool fits(const struct token *token)
{
	const char *p = token->start, *end = p + token->len;
	bool negative = *p == '-';
	unsigned int base = 10;
	uint64_t v = 0;

	if (*p == '-' || *p == '+')
		p++;
	if (token->len > 2 && p[0] == '0' && (p[1] | 0x20) == 'x') {
		base = 16;
		p += 2;
	}
	for (; p < end; p++) {
		v = v * base + (uint64_t)(is_digit(*p) ? *p - '0' : (*p | 0x20) - 'a' + 10);
		if (v > (uint64_t)INT32_MAX + negative)
			return false;
	}
	return true;
}

__attribute__((format(printf, 3, 4))) static int refuse(struct scan *s, int line, const char *fmt, ...)
{
	va_list ap;

	s->ret->line = line;
	va_start(ap, fmt);
	vsnprintf(s->ret->text, sizeof(s->ret->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* For "%.*s". */
static int shown(const struct token *token)
{
	return token->len > SHOWN_MAX ? SHOWN_MAX : (int)token->len;
}

static bool is_mark(const struct token *token, char mark)
{
	return token->kind == MARK && *token->start == mark;
}

/* Go on to the next token, which is refused here if it is one that is never wanted. */
static int advance(struct scan *s)
{
	const struct token *t = &s->token;

	s->token = next_token(s);
	if (t->kind == FAULT)
		return refuse(s, t->line, "%s", s->fault);
	if (is_mark(t, '@'))
		return refuse(s, t->line,
			      "@include is not supported: put the settings into this file, "
			      "so that its owner and mode say who may change them");
	if (t->kind != INTEGER)
		return 0;
	if (!fits(t))
		return refuse(s, t->line, "the number %.*s%s is too large: whole numbers go up to 2147483647", shown(t),
			      t->start, t->len > SHOWN_MAX ? "..." : "");
	if (*s->p == 'L')
		return refuse(s, t->line, "%.*sL: no number here needs the L; write %.*s", shown(t), t->start, shown(t),
			      t->start);
	return 0;
}

static bool is_truth(const struct token *t)
{
	return t->kind == NAME && ((t->len == 4 && strncasecmp(t->start, "true", 4) == 0) ||
				   (t->len == 5 && strncasecmp(t->start, "false", 5) == 0));
}

/* A number, a text (of several pieces, maybe) or a truth value. */
static int take_simple(struct scan *s)
{
	const struct token *t = &s->token;
	int r;

	if (t->kind == NAME && !is_truth(t))
		return refuse(s, t->line, "%.*s: a text stands in quotes: \"%.*s\"", shown(t), t->start, shown(t),
			      t->start);
	if (t->kind == END || t->kind == MARK)
		return refuse(s, t->line, "a value is missing in front of %s%.*s%s", t->kind == END ? "the end" : "\"",
			      shown(t), t->start, t->kind == END ? "" : "\"");
	if (t->kind != STRING)
		return advance(s);
	do
		r = advance(s);
	while (r == 0 && t->kind == STRING);
	return r;
}

static int enter(struct scan *s)
{
	if (++s->depth > DEPTH_MAX)
		return refuse(s, s->token.line, "groups and lists stand in each other more than %d deep", DEPTH_MAX);
	return advance(s);
}

static int leave(struct scan *s, char close, const struct token *open)
{
	const struct token *t = &s->token;

	if (t->kind == END)
		return refuse(s, open->line, "the %c in this line is never closed: add a %c", *open->start, close);
	if (!is_mark(t, close))
		return refuse(s, t->line, "a %c is missing in front of %.*s; the %c is in line %d", close, shown(t),
			      t->start, *open->start, open->line);
	s->depth--;
	return advance(s);
}

static int take_settings(struct scan *s, const struct setting *owner);

/* Arrays of libconfig hold simple values of one type, lists hold anything. */
static int take_value(struct scan *s, const struct setting *owner)
{
	const struct token first = s->token;
	enum kind kind = END;
	char close;
	int r;

	if (is_mark(&first, '{')) {
		r = enter(s);
		if (r == 0)
			r = take_settings(s, owner);
		return r < 0 ? r : leave(s, '}', &first);
	}
	if (!is_mark(&first, '(') && !is_mark(&first, '['))
		return take_simple(s);
	close = *first.start == '(' ? ')' : ']';
	r = enter(s);
	while (r == 0 && !is_mark(&s->token, close)) {
		if (close == ']' && kind != END && s->token.kind != kind && s->token.kind != MARK &&
		    s->token.kind != END)
			return refuse(s, s->token.line, "what stands in [ ] must be all of one type");
		kind = s->token.kind;
		r = close == ']' ? take_simple(s) : take_value(s, owner);
		if (r < 0 || !is_mark(&s->token, ','))
			break;
		r = advance(s);
		if (r == 0 && is_mark(&s->token, close))
			return refuse(s, s->token.line, "a value is missing in front of \"%c\"", close);
	}
	return r < 0 ? r : leave(s, close, &first);
}

static void format_key(const struct setting *setting, char *buf, size_t size)
{
	const struct setting *path[DEPTH_MAX + 1];
	size_t len = 0;
	int n = 0;

	for (; setting && n <= DEPTH_MAX; setting = setting->owner)
		path[n++] = setting;
	buf[0] = '\0';
	while (n-- > 0 && len < size)
		len += (size_t)snprintf(buf + len, size - len, "%.*s%s", shown(&path[n]->name), path[n]->name.start,
					n > 0 ? "." : "");
}

/* Remember the setting at hand in @ret; refused if it stands in its group already. */
static int note_setting(struct scan *s, const struct setting *owner, int group, const struct setting **ret)
{
	const struct token *name = &s->token;

	for (int i = 0; i < s->n_settings; i++) {
		const struct setting *other = &s->settings[i];
		char key[SHOWN_MAX * 3];

		if (other->group != group || other->name.len != name->len ||
		    memcmp(other->name.start, name->start, name->len) != 0)
			continue;
		format_key(other, key, sizeof(key));
		return refuse(s, name->line, "%s is given twice: it is in line %d already", key, other->name.line);
	}
	if (s->n_settings == SETTINGS_MAX)
		return refuse(s, name->line, "there are more than %d settings: this is no configuration", SETTINGS_MAX);
	s->settings[s->n_settings] = (struct setting){ owner, group, *name };
	*ret = &s->settings[s->n_settings++];
	return 0;
}

/* The settings of a group, up to what can't be one. */
static int take_settings(struct scan *s, const struct setting *owner)
{
	const struct token *t = &s->token;
	int group = s->n_groups++;

	while (t->kind == NAME && !is_truth(t)) {
		const struct setting *setting = NULL;
		int r = note_setting(s, owner, group, &setting);

		if (r == 0)
			r = advance(s);
		if (r < 0)
			return r;
		if (is_mark(t, '.'))
			return refuse(s, setting->name.line,
				      "no dots in a name here: a group is written %.*s = { key = value; };",
				      shown(&setting->name), setting->name.start);
		if (!is_mark(t, '=') && !is_mark(t, ':'))
			return refuse(s, setting->name.line,
				      "a = is missing behind %.*s: a setting is written key = value; and a group "
				      "key = { ... };",
				      shown(&setting->name), setting->name.start);
		r = advance(s);
		if (r == 0)
			r = take_value(s, setting);
		if (r == 0 && (is_mark(t, ';') || is_mark(t, ',')))
			r = advance(s);
		if (r < 0)
			return r;
	}
	return 0;
}

int config_scan(const char *text, struct config_scan_fault *ret)
{
	struct scan s = { .p = text, .line = 1, .ret = ret };
	int r = advance(&s);

	if (r == 0)
		r = take_settings(&s, NULL);
	if (r == 0 && s.token.kind != END)
		r = refuse(&s, s.token.line,
			   "\"%.*s\" can't stand here: a setting is written key = value; and a group "
			   "key = { ... };",
			   shown(&s.token), s.token.start);
	return r;
}
