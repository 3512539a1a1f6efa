/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes, files and JSON for the zoo (zoo_run.h).
 */
#include "zoo_run.h"

#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/child.h"

#define VARIABLES 32

unsigned zoo_time_limit = CHILD_HANGS;
const char *zoo_driver;

static char *join(const char *folder, const char *file)
{
	char *path;

	if (asprintf(&path, "%s/%s", folder, file) < 0)
		abort();
	return path;
}

char *zoo_path(const char *file)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length < 0)
		abort();
	program[length] = '\0';
	return join(dirname(dirname(dirname(program))), file);
}

char *zoo_scratch(const char *file)
{
	return join(child_folder(), file);
}

static char *variable(const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		abort();
	return text;
}

static void become(const char *const *argv, const char *const *environment, const char *dump)
{
	char *variables[VARIABLES] = {0}, *words[16] = {0};
	int count = 0;

	variables[count++] = variable("PATH", getenv("PATH"));
	variables[count++] = variable("LD_LIBRARY_PATH", zoo_path("simgpu"));
	if (zoo_driver)
		variables[count++] = variable("SIMGPU_DRIVER", zoo_driver);
	if (dump)
		variables[count++] = variable("APP_DUMP", dump);
	for (; *environment && count < VARIABLES - 1; environment++)
		variables[count++] = strdup(*environment);
	for (int i = 0; i < 15 && argv[i]; i++)
		words[i] = i ? strdup(argv[i]) : zoo_path(argv[0]);
	alarm(zoo_time_limit);
	execve(words[0], words, variables);
	perror(words[0]);
	_exit(127);
}

void *zoo_read(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	char *data = NULL;
	size_t room = 0;

	*bytes = 0;
	if (!file)
		return NULL;
	do {
		room = room ? 2 * room : 65536;
		data = realloc(data, room + 1);
		if (!data)
			abort();
		*bytes += fread(data + *bytes, 1, room - *bytes, file);
	} while (*bytes == room);
	fclose(file);
	data[*bytes] = '\0';
	return data;
}

void zoo_run(struct outcome *outcome, const char *const *argv, const char *const *environment,
	     bool dump)
{
	char *out = zoo_scratch("stdout"), *err = zoo_scratch("stderr"),
	     *values = zoo_scratch("dump");
	size_t bytes;
	pid_t pid;

	unlink(values);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (!freopen(out, "w", stdout) || !freopen(err, "w", stderr))
			_exit(126);
		become(argv, environment, dump ? values : NULL);
	}
	waitpid(pid, &outcome->status, 0);
	outcome->text = zoo_read(out, &bytes);
	outcome->errors = zoo_read(err, &bytes);
	outcome->dump = zoo_read(values, &bytes);
	outcome->dump_count = bytes / sizeof(float);
	free(out);
	free(err);
	free(values);
}

void zoo_free(struct outcome *outcome)
{
	free(outcome->text);
	free(outcome->errors);
	free(outcome->dump);
	memset(outcome, 0, sizeof(*outcome));
}

/* ---- the log -----------------------------------------------------------------------------------
 */

static long number(const json_t *object, const char *key)
{
	return (long)json_integer_value(json_object_get(object, key));
}

static void add_reason(struct verdict *verdict, const char *reason)
{
	size_t used = strlen(verdict->reasons);

	snprintf(verdict->reasons + used, sizeof(verdict->reasons) - used, " %s ", reason);
}

static void read_summary(struct verdict *verdict, const json_t *record)
{
	json_t *site, *count;
	const char *name;
	size_t i;

	verdict->summaries++;
	json_array_foreach(json_object_get(record, "sites"), i, site)
	{
		const char *reason = json_string_value(json_object_get(site, "reason"));
		const char *state = json_string_value(json_object_get(site, "state"));

		verdict->sites++;
		verdict->declined += state && !strcmp(state, "declined");
		verdict->seen += number(site, "seen");
		verdict->replaced += number(site, "replaced");
		verdict->compared += number(site, "compared");
		verdict->materialised += number(site, "materialised");
		if (reason)
			add_reason(verdict, reason);
	}
	json_object_foreach(json_object_get(record, "reasons"), name, count)
		add_reason(verdict, name);
}

static void read_record(struct verdict *verdict, const json_t *record)
{
	const char *type = json_string_value(json_object_get(record, "type"));
	const char *what;

	if (!type) {
		verdict->there = false;
	} else if (!strcmp(type, "header")) {
		verdict->headers++;
	} else if (!strcmp(type, "summary")) {
		read_summary(verdict, record);
	} else if (!strcmp(type, "violation")) {
		what = json_string_value(json_object_get(record, "what"));
		snprintf(verdict->violation, sizeof(verdict->violation), "%s", what ? what : "?");
		verdict->violations++;
	}
}

void zoo_read_log(const char *path, struct verdict *verdict)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;

	memset(verdict, 0, sizeof(*verdict));
	if (!file)
		return;
	verdict->there = true;
	while (getline(&line, &size, file) > 0) {
		json_t *record = json_loads(line, 0, NULL);

		if (record)
			read_record(verdict, record);
		else
			verdict->there = false;
		json_decref(record);
	}
	free(line);
	fclose(file);
}

/* ---- comparing ---------------------------------------------------------------------------------
 */

/* Blanks out the word behind each of these. */
static void mask(char *line)
{
	static const char *const keys[] = {"hash=", "sum=", "checksum ", "mean "};

	for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		char *at = strstr(line, keys[i]), *word;
		size_t length;

		if (!at)
			continue;
		word = at + strlen(keys[i]);
		length = strcspn(word, " ");
		memmove(word, word + length, strlen(word + length) + 1);
	}
}

bool zoo_mentions(const char *path, const char *word)
{
	size_t bytes;
	char *text = zoo_read(path, &bytes);
	const bool found = text && strstr(text, word);

	free(text);
	return found;
}

bool zoo_same_text(const char *a, const char *b, bool exact_but_o, int *where)
{
	char *copies[2] = {strdup(a), strdup(b)}, *rest[2] = {copies[0], copies[1]};
	bool same = true;

	*where = 0;
	while (same && (rest[0] || rest[1])) {
		char *line[2];

		++*where;
		for (int i = 0; i < 2; i++)
			line[i] = strsep(&rest[i], "\n");
		if (!line[0] || !line[1]) {
			same = false;
			break;
		}
		if (!exact_but_o || line[0][0] == 'O') {
			mask(line[0]);
			mask(line[1]);
		}
		same = strcmp(line[0], line[1]) == 0;
	}
	free(copies[0]);
	free(copies[1]);
	return same;
}

double zoo_difference(const struct outcome *a, const struct outcome *b)
{
	double most = 0;

	if (a->dump_count != b->dump_count)
		return INFINITY;
	for (size_t i = 0; i < a->dump_count; i++) {
		const double x = (double)a->dump[i], y = (double)b->dump[i];

		if ((isnan(x) && isnan(y)) || x == y)
			continue;
		if (!isfinite(x) || !isfinite(y))
			return INFINITY;
		if (fabs(x - y) > most)
			most = fabs(x - y);
	}
	return most;
}
