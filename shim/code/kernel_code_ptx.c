/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX (kernel_code_parts.h), read as far as it takes to tell which instructions a kernel has and
 * which names of the module it uses. A kernel that calls functions of the module is taken to do
 * what any of them does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/code/kernel_code_parts.h"

#define ROUNDS 64 /* through the calls, before what they lead to is given up */

enum text_class {
	TEXT_PLAIN,
	TEXT_LOAD,
	TEXT_FENCE,
	TEXT_COPY,
	TEXT_CALL,
	TEXT_ATOMIC,
	TEXT_TEXTURE,
	TEXT_MAP,
	TEXT_TRAP,
};

static const struct {
	const char *name;
	size_t length;
	enum text_class class;
} instructions[] = {
#define PTX(name, what) {#name, sizeof(#name) - 1, TEXT_##what},
#include "shim/code/kernel_code.def"
};

static const char *const tables[] = {
#define TABLE(name) #name,
#include "shim/code/kernel_code.def"
};

struct token {
	const char *at;
	size_t length; /* 0: the end */
};

struct reader {
	const char *at, *end;
	struct token token;
	struct code_table names;     /* of variables, and what it is to name them */
	struct code_table functions; /* with a body */
	struct code_row *caller;     /* the function that is read; NULL: a kernel */
	struct call {
		struct code_row *caller, *callee;
	} * calls; /* among functions */
	size_t call_count, call_room;
	enum pass {
		PASS_NAMES, /* variables, and functions with a body */
		PASS_FUNCTIONS,
		PASS_KERNELS,
	} pass;
};

/* ---- tokens -------------------------------------------------------------------------------------
 */

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '%' || c == '.';
}

static void skip_line(struct reader *r)
{
	while (r->at < r->end && *r->at != '\n')
		r->at++;
}

/* A comment or a string, whole. false: there is none here. */
static bool skip_apart(struct reader *r)
{
	const char *at = r->at;

	if (r->end - at > 1 && at[0] == '/' && at[1] == '/') {
		skip_line(r);
	} else if (r->end - at > 1 && at[0] == '/' && at[1] == '*') {
		for (r->at += 2;
		     r->at < r->end && !(r->at[-1] == '*' && r->at[0] == '/' && r->at - at > 2);)
			r->at++;
		r->at += r->at < r->end;
	} else if (*at == '"') {
		for (r->at++; r->at < r->end && *r->at != '"';)
			r->at++;
		r->at += r->at < r->end;
	} else {
		return false;
	}
	return true;
}

/* The next name, number or opcode with its parts, or a single other character. */
static bool next(struct reader *r)
{
	while (r->at < r->end && ((unsigned char)*r->at <= ' ' || skip_apart(r)))
		if (r->at < r->end && (unsigned char)*r->at <= ' ')
			r->at++;
	r->token.at = r->at;
	while (r->at < r->end) {
		if (is_name(*r->at))
			r->at++;
		else if (r->end - r->at > 2 && r->at[0] == ':' && r->at[1] == ':' &&
			 r->at > r->token.at)
			r->at += 2;
		else
			break;
	}
	if (r->at == r->token.at && r->at < r->end)
		r->at++;
	r->token.length = (size_t)(r->at - r->token.at);
	return r->token.length != 0;
}

static bool is(const struct token *token, const char *text)
{
	return token->length == strlen(text) && !memcmp(token->at, text, token->length);
}

/* Does an opcode have that part behind its name? */
static bool has_part(const struct token *token, const char *part)
{
	const size_t length = strlen(part);

	for (const char *at = token->at, *end = at + token->length; at < end; at++)
		if (*at == '.' && (size_t)(end - at - 1) >= length &&
		    !memcmp(at + 1, part, length) &&
		    (at + 1 + length == end || at[1 + length] == '.' || at[1 + length] == ':'))
			return true;
	return false;
}

/* ---- instructions -------------------------------------------------------------------------------
 */

static bool is_near(const struct token *token)
{
	return has_part(token, "shared") || has_part(token, "local") || has_part(token, "param");
}

static uint32_t deeds_of_load(const struct token *token)
{
	return !is_near(token) && (has_part(token, "volatile") || has_part(token, "relaxed") ||
				   has_part(token, "acquire") || has_part(token, "mmio") ||
				   has_part(token, "cv") || has_part(token, "cg"))
		       ? DEED_ATOMICS
		       : 0;
}

static bool note_call(struct reader *r, struct code_row *callee)
{
	if (r->call_count == r->call_room) {
		const size_t room = r->call_room ? 2 * r->call_room : 16;
		struct call *fresh = realloc(r->calls, room * sizeof(*fresh));

		if (!fresh)
			return false;
		r->calls = fresh;
		r->call_room = room;
	}
	r->calls[r->call_count++] = (struct call){r->caller, callee};
	return true;
}

/* The target of a call: what stands first behind what it returns. */
static uint32_t deeds_of_call(struct reader *r)
{
	struct code_row *callee;

	if (next(r) && is(&r->token, "(")) {
		while (next(r) && !is(&r->token, ")"))
			;
		next(r); /* a comma */
		next(r);
	}
	if (!r->token.length || *r->token.at == '%')
		return DEED_INDIRECT;
	callee = code_table_row(&r->functions, r->token.at, r->token.length);
	if (!callee)
		return DEED_LAUNCHES;
	if (!r->caller)
		return callee->deeds;
	return note_call(r, callee) ? 0 : DEED_UNKNOWN;
}

/* Functions do what those do that they call, however deep. */
static void close_calls(struct reader *r)
{
	bool changed = true;

	for (unsigned round = 0; changed; round++) {
		changed = false;
		for (size_t i = 0; i < r->call_count; i++) {
			struct code_row *caller = r->calls[i].caller;
			const uint32_t deeds = caller->deeds | r->calls[i].callee->deeds |
					       (round == ROUNDS ? DEED_UNKNOWN : 0);

			changed |= deeds != caller->deeds && round < ROUNDS;
			caller->deeds = deeds;
		}
	}
}

/* An opcode up to its first dot. -1: it is not known. */
static int class_of(const struct token *token)
{
	const char *dot = memchr(token->at, '.', token->length);
	const size_t length = dot ? (size_t)(dot - token->at) : token->length;

	for (size_t i = 0; i < sizeof(instructions) / sizeof(*instructions); i++)
		if (instructions[i].length == length &&
		    !memcmp(instructions[i].name, token->at, length))
			return (int)instructions[i].class;
	return -1;
}

static uint32_t deeds_of_instruction(struct reader *r)
{
	const struct token token = r->token;

	switch (class_of(&token)) {
	case TEXT_PLAIN:
		return 0;
	case TEXT_LOAD:
		return deeds_of_load(&token);
	case TEXT_FENCE:
		return has_part(&token, "gpu") || has_part(&token, "sys") || has_part(&token, "gl")
			       ? DEED_ATOMICS
			       : 0;
	case TEXT_COPY:
		return has_part(&token, "reduce")				     ? DEED_ATOMICS
		       : has_part(&token, "tensor") || has_part(&token, "tensormap") ? DEED_MAPS
										     : 0;
	case TEXT_CALL:
		return deeds_of_call(r);
	case TEXT_ATOMIC:
		return has_part(&token, "shared") ? 0 : DEED_ATOMICS;
	case TEXT_TEXTURE:
		return DEED_TEXTURES;
	case TEXT_MAP:
		return DEED_MAPS;
	case TEXT_TRAP:
		return DEED_TRAPS;
	}
	return DEED_UNKNOWN;
}

/* What a name in an operand means. */
static uint32_t deeds_of_name(const struct reader *r)
{
	const char first = *r->token.at;
	const struct code_row *row;

	if (!is_name(first) || first == '%' || first == '.' || (first >= '0' && first <= '9'))
		return 0;
	row = code_table_row(&r->names, r->token.at, r->token.length);
	return row ? row->deeds : 0;
}

static bool label_follows(const struct reader *r)
{
	const char *at = r->at;

	while (at < r->end && (unsigned char)*at <= ' ')
		at++;
	return at < r->end && *at == ':';
}

/* A function's body, whose first brace was the last token. */
static uint32_t read_body(struct reader *r)
{
	bool start = true, directive = false;
	unsigned depth = 1, vectors = 0; /* blocks, and braces within a statement */
	uint32_t deeds = 0;

	while (depth && next(r)) {
		const char first = *r->token.at;

		if (!start && first == '{') {
			vectors++;
		} else if (!start && first == '}' && vectors) {
			vectors--;
		} else if (first == '{' || first == '}') {
			depth += first == '{' ? 1 : -1u;
			start = true;
		} else if (first == ';') {
			start = true;
			directive = false;
			vectors = 0;
		} else if (start && first == '@') { /* a predicate, perhaps negated */
			if (next(r) && is(&r->token, "!"))
				next(r);
		} else if (start && (is(&r->token, ".loc") || is(&r->token, ".file"))) {
			skip_line(r);
		} else if (start && first == '.') {
			start = false;
			directive = true;
			if (is(&r->token, ".global") || is(&r->token, ".const"))
				deeds |= DEED_UNKNOWN; /* these stand outside */
		} else if (start && is_name(first) && label_follows(r)) {
			next(r);
		} else if (start) {
			start = false;
			deeds |= deeds_of_instruction(r);
		} else if (!directive) {
			deeds |= deeds_of_name(r);
		}
	}
	return depth ? DEED_UNKNOWN : deeds;
}

/* ---- the module ---------------------------------------------------------------------------------
 */

static bool add_variable(struct reader *r, uint32_t deeds)
{
	if (r->pass != PASS_NAMES)
		return true;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		if (is(&r->token, tables[i]))
			return true;
	if (deeds == DEED_GLOBALS && !code_is_string(r->token.at, r->token.length))
		deeds |= CODE_KEEPS;
	return code_table_add(&r->names, r->token.at, r->token.length, deeds);
}

static bool skip_body(struct reader *r)
{
	unsigned depth = 1;

	while (depth && next(r))
		depth += is(&r->token, "{") ? 1 : is(&r->token, "}") ? -1u : 0;
	return !depth;
}

static unsigned bytes_of_type(const struct token *token)
{
	static const struct {
		const char *name;
		unsigned bytes;
	} rows[] = {{".b8", 1},	 {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2},
		    {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4}, {".f16x2", 4},
		    {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (is(token, rows[i].name))
			return rows[i].bytes;
	return 0;
}

static unsigned number_of(const struct token *token)
{
	unsigned number = 0;

	for (size_t i = 0; i < token->length; i++) {
		if (token->at[i] < '0' || token->at[i] > '9' || number > UINT16_MAX)
			return 0;
		number = 10 * number + (unsigned)(token->at[i] - '0');
	}
	return number;
}

/* One parameter of a kernel, as far as the comma or the parenthesis behind it: `.param .align 8 .b8
 * name[24]`, `.param .u64 .ptr .global .align 4 name`. `at`: where the one before it ends. */
static bool read_parameter(struct reader *r, struct code_layout *layout, unsigned *at)
{
	unsigned type = 0, align = 0, elements = 1;
	bool pointer = false;

	do {
		if (is(&r->token, ".ptr")) {
			pointer = true;
		} else if (is(&r->token, ".align")) {
			if (!next(r))
				return false;
			if (!pointer) /* of the parameter, not of what it points to */
				align = number_of(&r->token);
		} else if (is(&r->token, "[")) {
			if (!next(r))
				return false;
			elements = number_of(&r->token);
		} else if (!type) {
			type = bytes_of_type(&r->token);
		}
		if (!next(r))
			return false;
	} while (!is(&r->token, ",") && !is(&r->token, ")"));
	align = align ? align : type;
	if (!type || !elements || align & (align - 1) || layout->count >= CODE_PARAMS)
		return false;
	*at = (*at + align - 1) & ~(align - 1);
	if (*at + (uint64_t)type * elements > UINT16_MAX)
		return false;
	layout->offset[layout->count] = (uint16_t)*at;
	layout->size[layout->count++] = (uint16_t)(type * elements);
	*at += type * elements;
	return true;
}

/* From the parenthesis to the one that closes it. */
static void read_parameters(struct reader *r, struct code_layout *layout)
{
	bool known = next(r);
	unsigned at = 0;

	layout->count = 0;
	while (known && !is(&r->token, ")")) {
		known = read_parameter(r, layout, &at);
		if (known && is(&r->token, ","))
			known = next(r);
	}
	while (!is(&r->token, ")") && next(r))
		;
	if (!known)
		layout->count = CODE_PARAMS + 1;
}

/* Behind .entry or .func: a name, parameters, and a body or none. */
static int read_function(struct reader *r, bool entry, struct code_table *table)
{
	struct code_layout layout = {0};
	struct token name = {0};
	uint32_t deeds;

	while (next(r) && !is(&r->token, "{") && !is(&r->token, ";")) {
		if (is(&r->token, "(")) {
			read_parameters(r, &layout);
		} else if (!name.length && *r->token.at != '.') {
			name = r->token;
		}
	}
	if (!name.length || !r->token.length)
		return -EINVAL;
	if (is(&r->token, ";"))
		return 0;
	if (r->pass != (entry ? PASS_KERNELS : PASS_FUNCTIONS)) {
		if (r->pass == PASS_NAMES && !entry &&
		    !code_table_add(&r->functions, name.at, name.length, 0))
			return -ENOMEM;
		return skip_body(r) ? 0 : -EINVAL;
	}
	r->caller = entry ? NULL : code_table_row(&r->functions, name.at, name.length);
	deeds = read_body(r);
	if (r->caller) {
		r->caller->deeds |= deeds;
		return 0;
	}
	return code_table_add(table, name.at, name.length, deeds | CODE_UNPROVEN) &&
			       code_table_place(table, &layout)
		       ? 0
		       : -ENOMEM;
}

/* One statement outside of functions, whose first token was read. */
static int read_statement(struct reader *r, struct code_table *table)
{
	uint32_t deeds = 0;

	do {
		const struct token token = r->token;

		if (is(&token, ".version") || is(&token, ".target") ||
		    is(&token, ".address_size") || is(&token, ".file") || is(&token, ".loc")) {
			skip_line(r);
			return 0;
		}
		if (is(&token, ".section")) {
			for (int depth = 0; next(r) && !(is(&r->token, "}") && depth <= 1);)
				depth += is(&r->token, "{") ? 1 : is(&r->token, "}") ? -1 : 0;
			return 0;
		}
		if (is(&token, ".entry") || is(&token, ".func"))
			return read_function(r, is(&token, ".entry"), table);
		if (is(&token, ".global"))
			deeds = DEED_GLOBALS;
		else if (is(&token, ".const"))
			deeds = DEED_CONSTANTS;
		else if (is(&token, ".texref") || is(&token, ".surfref") ||
			 is(&token, ".samplerref"))
			deeds = DEED_TEXTURES;
		else if (is(&token, ".align"))
			next(r);
		else if (is(&token, "("))
			while (next(r) && !is(&r->token, ")"))
				;
		else if (*token.at != '.') {
			if (deeds && !add_variable(r, deeds))
				return -ENOMEM;
			/* Several may stand in one statement. */
			for (int depth = 0; !is(&r->token, ";") || depth > 0;) {
				const bool comma = is(&r->token, ",") && depth == 0;

				depth += is(&r->token, "{") ? 1 : is(&r->token, "}") ? -1 : 0;
				if (!next(r))
					return -EINVAL;
				if (comma && deeds && !add_variable(r, deeds))
					return -ENOMEM;
			}
			return 0;
		}
	} while (next(r));
	return 0;
}

int code_read_ptx(const char *text, size_t bytes, struct code_table *table)
{
	struct reader r = {.end = text + strnlen(text, bytes)};
	bool version = false;
	int result = 0;

	for (r.pass = PASS_NAMES; r.pass <= PASS_KERNELS && !result; r.pass++) {
		r.at = text;
		while (!result && next(&r)) {
			version |= is(&r.token, ".version");
			result = version ? read_statement(&r, table) : -EINVAL;
		}
		if (r.pass == PASS_NAMES) {
			code_table_sort(&r.names);
			code_table_sort(&r.functions);
		} else if (r.pass == PASS_FUNCTIONS) {
			close_calls(&r);
		}
	}
	free(r.calls);
	code_table_free(&r.names);
	code_table_free(&r.functions);
	return result || version ? result : -EINVAL;
}
