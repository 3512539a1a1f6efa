/* SPDX-License-Identifier: Apache-2.0
 *
 * Which types an element-wise kernel loads and stores, from its mangled name: the template
 * arguments of a functor's class, or a lambda's parameters. What a lambda returns is in no name;
 * kernel_rules.def says it of those that are known, and only these are known to hold no pointer.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

/* What RESULT() of kernel_rules.def may say. */
enum result {
	RESULT_FIRST,
	RESULT_SECOND,
	RESULT_BOOL,
	RESULT_HALF,
	RESULT_BFLOAT,
	RESULT_WIDENED,
	RESULT_COMPLEX
};

/* The only class of numbers that a name speaks of: what a substitution (S5_) in it stands for. */
static struct type only_class(const struct reading *r)
{
	static const struct {
		const char *text;
		const struct type *type;
	} classes[] = {{"4HalfE", &type_half},		{"8BFloat16E", &type_bfloat},
		       {"7complexIfE", &type_complex},	{"7complexIdE", &type_wide_complex},
		       {"7complexI", &type_unknown},	{"6Float8_", &type_unknown},
		       {"10OpaqueTypeI", &type_unknown}};
	const struct type *found = NULL;

	for (unsigned i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		if (!strstr(r->function->name, classes[i].text))
			continue;
		if (found && (i != 4 || found->bytes < 8)) /* 4: the same complex numbers again */
			return type_unknown;
		found = found ? found : classes[i].type;
	}
	return found ? *found : type_unknown;
}

/* The type that *at begins with; *at moves behind it. */
static struct type take_type(const char **at, struct type only)
{
	static const struct {
		const char *text;
		const struct type *type;
	} named[] = {{"4HalfE", &type_half},
		     {"8BFloat16E", &type_bfloat},
		     {"7complexIfEE", &type_complex},
		     {"7complexIdEE", &type_wide_complex}};
	const char *name = *at;

	if (*name == 'S') {
		name = strchr(name, '_');
		*at = name ? name + 1 : "";
		return only;
	}
	if (*name != 'N')
		return **at ? rule_type_of_letter(*(*at)++) : type_unknown;
	name++;
	if (strncmp(name, "3c10", 4) == 0)
		name += 4;
	else if (*name == 'S' && strchr(name, '_'))
		name = strchr(name, '_') + 1;
	for (unsigned i = 0; i < sizeof(named) / sizeof(*named); i++)
		if (strncmp(name, named[i].text, strlen(named[i].text)) == 0) {
			*at = name + strlen(named[i].text);
			return *named[i].type;
		}
	*at = "";
	return type_unknown;
}

/* Where the functor's own name begins, and beyond it: the array of pointers, or the lambda that is
 * the kernel's body. NULL: another kind of name. */
static const char *functor_name(const struct reading *r, const char **end)
{
	static const char *const before[] = {"22gpu_kernel_impl_nocastI", "15gpu_kernel_implI",
					     "27unrolled_elementwise_kernelI",
					     "29vectorized_elementwise_kernelILi"};
	const char *name = r->function->name, *at = NULL;

	for (int i = 0; i < 4; i++) {
		at = strstr(name, before[i]);
		if (!at)
			continue;
		at += strlen(before[i]);
		if (i == 3) { /* behind the number */
			at = strchr(at, 'E');
			at = at ? at + 1 : NULL;
		}
		if (i >= 2) {
			*end = strstr(name, "St5arrayIPc");
			if (!*end)
				*end = strstr(name, "5ArrayIPc");
		} else {
			*end = name + strlen(name);
			for (const char *next = at; (next = strstr(next, "EUli")); next++)
				*end = next;
		}
		return *end && at && *end > at ? at : NULL;
	}
	return NULL;
}

/* <argument, argument, result, operation>, one argument perhaps bound; or <type> for all of them.
 */
static bool of_class(struct functor *functor, const char *name, struct type only)
{
	static const struct {
		const char *name;
		int types;	/* of its template */
		int operand[3]; /* which of these each is; -1: no more */
		bool decides;	/* the result is a bool */
	} classes[] = {
		{"13BinaryFunctorI", 3, {2, 0, 1}, false},
		{"13AUnaryFunctorI", 3, {2, 1, -1}, false},
		{"13BUnaryFunctorI", 3, {2, 0, -1}, false},
		{"15CUDAFunctor_addI", 1, {0, 0, 0}, false},
		{"21CUDAFunctorOnSelf_addI", 1, {0, 0, -1}, false},
		{"22CUDAFunctorOnOther_addI", 1, {0, 0, -1}, false},
		{"11FillFunctorI", 1, {0, -1, -1}, false},
		{"10AbsFunctorI", 1, {0, 0, -1}, false},
		{"14CompareFunctorI", 1, {0, 0, 0}, true},
	};

	for (unsigned i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		struct type type[3];
		/* N, the namespace's short name, perhaps an anonymous one */
		const char *at = strstr(name, classes[i].name);

		if (!at || at - name > 80 || name[0] != 'N' ||
		    memchr(name, 'I', (size_t)(at - name)))
			continue;
		at += strlen(classes[i].name);
		for (int k = 0; k < classes[i].types; k++)
			type[k] = take_type(&at, only);
		for (int k = 0; k < 3 && classes[i].operand[k] >= 0; k++)
			functor->operand[functor->operands++] = type[classes[i].operand[k]];
		if (classes[i].decides)
			functor->operand[0] = type_bool;
		return true;
	}
	return false;
}

static struct type widened(struct type type)
{
	return type.bytes == 2 && type.dtype >= 0 ? type_float : type;
}

/* A lambda: its parameters are those behind the last EUl before `end`. */
static bool of_lambda(const struct reading *r, struct functor *functor, const char *name,
		      const char *end, struct type only)
{
	static const struct {
		enum result result;
		const char *needle;
	} results[] = {
#define RESULT(result, needle) {RESULT_##result, needle},
#include "shim/rules/kernel_rules.def"
#undef RESULT
	};
	const char *at = NULL;

	if (name[0] != 'Z')
		return false;
	for (const char *next = name; (next = strstr(next, "EUl")) && next < end; next++)
		at = next + 3;
	if (!at)
		return false;
	functor->operands = 1;
	if (*at == 'v')
		at++;
	while (*at && *at != 'E' && functor->operands < FUNCTOR_OPERANDS)
		functor->operand[functor->operands++] = take_type(&at, only);
	if (*at != 'E') {
		functor->operands = 0;
		return false;
	}
	functor->operand[0] = type_unknown;
	for (unsigned i = 0; i < sizeof(results) / sizeof(*results); i++) {
		const char *found = strstr(r->function->name, results[i].needle);

		if (!found || found >= end)
			continue;
		switch (results[i].result) {
		case RESULT_FIRST:
			functor->operand[0] = functor->operand[1];
			break;
		case RESULT_SECOND:
			functor->operand[0] = functor->operand[2];
			break;
		case RESULT_BOOL:
			functor->operand[0] = type_bool;
			break;
		case RESULT_HALF:
			functor->operand[0] = type_half;
			break;
		case RESULT_BFLOAT:
			functor->operand[0] = type_bfloat;
			break;
		case RESULT_WIDENED:
			functor->operand[0] = widened(functor->operand[1]);
			break;
		case RESULT_COMPLEX:
			functor->operand[0] = (struct type){-1, 2 * functor->operand[1].bytes};
			break;
		}
		return true;
	}
	return false;
}

/* How large the functor is, of those that are used with casts. 0: not known. */
static int functor_bytes(const struct reading *r, const struct functor *functor)
{
	static const char *const empty[] = {"10MulFunctorI",	      "10DivFunctorI",
					    "17BitwiseAndFunctorI",   "16BitwiseOrFunctorI",
					    "19minimum_kernel_cudaE", "19maximum_kernel_cudaE"};
	const int number = functor->operand[0].bytes == 8 ? 8 : 4;
	const char *name = r->function->name;

	if (functor->role == ROLE_COPY || strstr(name, "22batch_norm_elementwiseE"))
		return 1;
	if (functor->role == ROLE_ADD) /* a factor */
		return number;
	if (strstr(name, "21CUDAFunctorOnSelf_addI") || strstr(name, "22CUDAFunctorOnOther_addI"))
		return 2 * number;
	if (strstr(name, "15gpu_kernel_implINS0_") && strstr(name, "14CompareFunctorI"))
		return strstr(name, "UnaryFunctorI") || strstr(name, "BinaryFunctorI") ? 0 : 4;
	for (unsigned i = 0; i < sizeof(empty) / sizeof(*empty); i++)
		if (strstr(name, "13BinaryFunctorI") && strstr(name, empty[i]))
			return 1;
	return 0;
}

void rule_functor_operands(const struct reading *r, struct functor *functor)
{
	const struct type only = only_class(r);
	const char *end = NULL, *name = functor_name(r, &end);

	functor->operands = 0;
	functor->plain = false;
	for (int i = 0; i < FUNCTOR_OPERANDS; i++)
		functor->operand[i] = type_unknown;
	if (name)
		functor->plain =
			of_class(functor, name, only) || of_lambda(r, functor, name, end, only);
	functor->bytes = functor_bytes(r, functor);
}
