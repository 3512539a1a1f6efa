/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion by conversion: numbers are printf()'s own.
 */
#include "tools/base/escaped.h"

#include <stdarg.h>
#include <string.h>

/* The compiler has checked the whole format. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

void escaped_printf(FILE *out, void (*escape)(FILE *out, const char *text), const char *format, ...)
{
	char one[16];
	va_list args;

	va_start(args, format);
	for (size_t length; *format; format += length) {
		const size_t plain = strcspn(format, "%");

		fwrite(format, 1, plain, out);
		format += plain;
		length = *format ? 2 + strcspn(format + 1, "%sduxefg") : 0;
		snprintf(one, sizeof(one), "%.*s", (int)length, format);
		if (!length || one[length - 1] == '%')
			fputs(length ? "%" : "", out);
		else if (one[length - 1] == 's')
			escape(out, va_arg(args, const char *));
		else if (strpbrk(one, "efg"))
			fprintf(out, one, va_arg(args, double));
		else if (strpbrk(one, "lz"))
			fprintf(out, one, va_arg(args, unsigned long long));
		else
			fprintf(out, one, va_arg(args, int));
	}
	va_end(args);
}
