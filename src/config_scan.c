/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "config_char.h"
#include "config_scan.h"
#include "config_value.h"

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
	const char *text, *end; /* @end: of the token before the one that is looked at */
	void (*fn)(void *ctx, const struct config_scan_setting *setting);
	void *ctx;
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
		s->p += config_char_len(s->p);
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

/* For "%.*s": no more than fits into a message, and no half character. */
static int shown_len(const char *p, size_t len)
{
	if (len <= SHOWN_MAX)
		return (int)len;
	for (len = SHOWN_MAX; len > 0 && ((unsigned char)p[len] & 0xc0) == 0x80; len--)
		;
	return (int)len;
}

static int shown(const struct token *token)
{
	return shown_len(token->start, token->len);
}

/* For the "%s" behind it. */
static const char *ellipsis(size_t len)
{
	return len > SHOWN_MAX ? "..." : "";
}

static bool is_mark(const struct token *token, char mark)
{
	return token->kind == MARK && *token->start == mark;
}

/* Go on to the next token, which is refused here if it is one that is never wanted. */
static int advance(struct scan *s)
{
	const struct token *t = &s->token;

	s->end = t->start + t->len;
	s->token = next_token(s);
	if (t->kind == FAULT)
		return refuse(s, t->line, "%s", s->fault);
	if (is_mark(t, '@'))
		return refuse(s, t->line,
			      "@include is not supported: put the settings into this file, "
			      "so that its owner and mode say who may change them");
	if (t->kind == MARK && strncmp(t->start, "\xc2\xa0", 2) == 0)
		return refuse(s, t->line, "there is a no-break space here (U+00A0): use a plain one");
	if (t->kind != INTEGER)
		return 0;
	if (!fits(t))
		return refuse(s, t->line, "the number %.*s%s is too large: whole numbers go up to 2147483647", shown(t),
			      t->start, ellipsis(t->len));
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

/* Does a setting begin at @p, a name and what may follow one? */
static bool begins_setting(struct scan *s, const char *p)
{
	const char *here = s->p;
	int line = s->line;
	struct token t;

	s->p = p;
	t = next_token(s);
	if (t.kind == NAME)
		t = next_token(s);
	else
		t.kind = END;
	s->p = here;
	s->line = line;
	return is_mark(&t, '=') || is_mark(&t, ':') || is_mark(&t, '{') || is_mark(&t, '.');
}

static int refuse_as(struct scan *s, int line, const struct setting *owner, enum config_odd odd, const char *word,
		     size_t len, const char *rest, size_t rest_len)
{
	char key[SHOWN_MAX * 3], text[SHOWN_MAX + 4], more[SHOWN_MAX + 4];

	format_key(owner, key, sizeof(key));
	snprintf(text, sizeof(text), "%.*s%s", shown_len(word, len), word, ellipsis(len));
	snprintf(more, sizeof(more), "%.*s%s", shown_len(rest, rest_len), rest, ellipsis(rest_len));
	s->ret->line = line;
	return config_explain(key, odd, text, more, s->ret->text, sizeof(s->ret->text));
}

/* A word without quotes, or with such as don't count here. */
static int refuse_word(struct scan *s, const struct setting *owner, bool in_list)
{
	const char *word = s->token.start;
	size_t quote = config_char_quote(word), len = 0;

	word += quote;
	if (quote == 0)
		len = config_char_word(word, in_list);
	else
		while (word[len] && word[len] != '\n' && word[len] != '"' && config_char_quote(word + len) == 0)
			len++;
	return refuse_as(s, s->token.line, owner, quote > 0 ? CONFIG_ODD_QUOTES : CONFIG_ODD_WORD, word, len, "", 0);
}

/* A number with a unit or signs behind it, 256M, 2 GiB, 5%, 0-3, 1,000: "can't stand here" would say too little. */
static int check_number(struct scan *s, const struct setting *owner, bool in_list)
{
	const struct token *t = &s->token;
	const char *rest = s->p + strspn(s->p, " \t");
	bool apart = rest != s->p;
	size_t len = config_char_word(rest, in_list);

	if (len == 0 || *rest == '@' || begins_setting(s, rest))
		return 0;
	/* With blanks between, a comma is missing rather, or there is one. */
	if (apart && (*rest == ',' || (in_list && starts_number(rest))))
		return 0;
	return refuse_as(s, t->line, owner, apart ? CONFIG_ODD_APART : CONFIG_ODD_NUMBER, t->start, t->len, rest, len);
}

/* A number, a text or a truth value. */
static int take_simple(struct scan *s, const struct setting *owner, bool in_list)
{
	const struct token *t = &s->token;
	const struct token first = *t;
	int r = 0;

	if (t->kind == END ||
	    (t->kind == MARK && config_char_quote(t->start) == 0 && (unsigned char)*t->start < 0x80) ||
	    (t->kind == NAME && !is_truth(t) && begins_setting(s, t->start) && !in_list))
		return refuse(s, t->line, "a value is missing before %s%.*s%s", t->kind == END ? "the end" : "\"",
			      shown(t), t->start, t->kind == END ? "" : "\"");
	if (t->kind == MARK || (t->kind == NAME && !is_truth(t)))
		return refuse_word(s, owner, in_list);
	if (t->kind == INTEGER || t->kind == FLOAT)
		r = check_number(s, owner, in_list);
	if (r == 0)
		r = advance(s);
	if (r == 0 && !in_list && first.kind == STRING && t->kind == STRING)
		return refuse_as(s, t->line, owner, CONFIG_ODD_TEXTS, first.start, first.len, t->start, t->len);
	return r;
}

/* After an item of a list: what is there instead of a comma? */
static int check_comma(struct scan *s, const struct token *item)
{
	const struct token *t = &s->token;

	if (item->kind == MARK || (t->kind != STRING && t->kind != INTEGER && t->kind != FLOAT))
		return 0;
	return refuse(s, t->line, "a , is missing between %.*s%s and %.*s%s", shown(item), item->start,
		      ellipsis(item->len), shown(t), t->start, ellipsis(t->len));
}

/* In a list: a name with = is a group in the wrong brackets. */
static int check_item(struct scan *s, const struct setting *owner)
{
	char key[SHOWN_MAX * 3];

	if (s->token.kind != NAME || is_truth(&s->token) || !begins_setting(s, s->token.start))
		return 0;
	format_key(owner, key, sizeof(key));
	return refuse(s, s->token.line, "%s: a group is written with { }: %s = { %.*s = ...; };", key, key,
		      shown(&s->token), s->token.start);
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
		return refuse(s, t->line, "a %c is missing before %.*s; the %c is in line %d", close, shown(t),
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
		return take_simple(s, owner, false);
	close = *first.start == '(' ? ')' : ']';
	r = enter(s);
	while (r == 0 && !is_mark(&s->token, close)) {
		const struct token item = s->token;

		r = check_item(s, owner);
		if (r < 0)
			return r;
		if (close == ']' && kind != END && item.kind != kind && item.kind != MARK && item.kind != END &&
		    (item.kind != NAME || is_truth(&item)))
			return refuse(s, s->token.line, "what stands in [ ] must be all of one type");
		kind = item.kind;
		r = close == ']' || (item.kind != MARK) || !strchr("{([", *item.start) ? take_simple(s, owner, true)
										       : take_value(s, owner);
		if (r == 0)
			r = check_comma(s, &item);
		if (r < 0 || !is_mark(&s->token, ','))
			break;
		r = advance(s);
		if (r == 0 && is_mark(&s->token, close))
			return refuse(s, s->token.line, "a value is missing before \"%c\"", close);
	}
	return r < 0 ? r : leave(s, close, &first);
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

static void tell(struct scan *s, const struct setting *setting, const char *value)
{
	char key[SHOWN_MAX * 3];

	if (!s->fn)
		return;
	format_key(setting, key, sizeof(key));
	s->fn(s->ctx, &(struct config_scan_setting){
			      .key = key,
			      .depth = s->depth,
			      .name = (size_t)(setting->name.start - s->text),
			      .value = (size_t)(value - s->text),
			      .end = (size_t)(s->end - s->text),
		      });
}

/* The settings of a group, up to what can't be one. */
static int take_settings(struct scan *s, const struct setting *owner)
{
	const struct token *t = &s->token;
	int group = s->n_groups++;

	while (t->kind == NAME && !is_truth(t)) {
		const struct setting *setting = NULL;
		const char *value;
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
				      "a = is missing after %.*s: a setting is written key = value; and a group "
				      "key = { ... };",
				      shown(&setting->name), setting->name.start);
		r = advance(s);
		value = t->start;
		if (r == 0)
			r = take_value(s, setting);
		if (r == 0)
			tell(s, setting, value);
		if (r == 0 && (is_mark(t, ';') || is_mark(t, ',')))
			r = advance(s);
		if (r < 0)
			return r;
	}
	return 0;
}

int config_scan_settings(const char *text, void (*fn)(void *ctx, const struct config_scan_setting *setting), void *ctx,
			 struct config_scan_fault *ret)
{
	struct scan s = { .p = text, .line = 1, .ret = ret, .text = text, .fn = fn, .ctx = ctx, .token.start = text };
	int r;

	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		return refuse(&s, 1, "the file begins with a byte order mark: save it as plain UTF-8");
	r = advance(&s);
	if (r == 0)
		r = take_settings(&s, NULL);
	if (r == 0 && s.token.kind != END)
		r = refuse(&s, s.token.line,
			   "\"%.*s\" can't stand here: a setting is written key = value; and a group "
			   "key = { ... };",
			   shown(&s.token), s.token.start);
	return r;
}

int config_scan(const char *text, struct config_scan_fault *ret)
{
	return config_scan_settings(text, NULL, NULL, ret);
}
