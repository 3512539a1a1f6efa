/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim export --format=sqlite: the log as tables, for questions that no report answers. The
 * database is made beside FILE in one transaction and takes its name when it is complete.
 */
#include "tools/export/export.h"
#include "tools/sites/report.h"
#include "tools/sites/report_columns.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PRAGMA user_version; within one version columns and tables are only added. */
#define SCHEMA_VERSION "1"

static const char schema[] =
	"PRAGMA user_version = " SCHEMA_VERSION ";"
	"CREATE TABLE run(run INTEGER PRIMARY KEY, path TEXT, pid INTEGER, rank INTEGER, exe TEXT,"
	" argv TEXT, host TEXT, start TEXT, mode TEXT, gpu TEXT, uuid TEXT, sm INTEGER,"
	" driver INTEGER, cublas INTEGER, fashim TEXT, \"end\" TEXT, wall_us REAL,"
	" overhead_us REAL, gemms INTEGER, launches INTEGER, scratch_peak INTEGER);"
	"CREATE TABLE option(run INTEGER REFERENCES run, name TEXT, value TEXT,"
	" PRIMARY KEY(run, name)) WITHOUT ROWID;"
	"CREATE TABLE site(run INTEGER REFERENCES run, site INTEGER, B INTEGER, H INTEGER,"
	" Sq INTEGER, Sk INTEGER, D INTEGER, Dv INTEGER, dtype TEXT, scale REAL, softcap REAL,"
	" mask TEXT, kernel TEXT, route TEXT, aliasing TEXT, chain TEXT, state TEXT, reason TEXT,"
	" detail TEXT, seen INTEGER, replaced INTEGER, compared INTEGER, passed INTEGER,"
	" materialised INTEGER, snapshots INTEGER, saved_us REAL,"
	" PRIMARY KEY(run, site)) WITHOUT ROWID;"
	"CREATE TABLE frame(run INTEGER, site INTEGER, kind TEXT, depth INTEGER, frame TEXT,"
	" PRIMARY KEY(run, site, kind, depth)) WITHOUT ROWID;"
	"CREATE TABLE sample(id INTEGER PRIMARY KEY, run INTEGER, site INTEGER, occurrence INTEGER,"
	" at_us REAL, stream INTEGER, app_us REAL, fused_us REAL, gemm1_us REAL, middle_us REAL,"
	" softmax_us REAL, gemm2_us REAL, max_abs REAL, max_rel REAL,"
	" rmse REAL, cosine REAL, beyond REAL, worst_index INTEGER, worst_app REAL,"
	" worst_fused REAL, nonfinite INTEGER, reference_rows INTEGER, app_max REAL, app_rmse REAL,"
	" fused_max REAL, fused_rmse REAL, verdict TEXT);"
	"CREATE TABLE event(id INTEGER PRIMARY KEY, run INTEGER, site INTEGER, type TEXT,"
	" occurrence INTEGER, what TEXT, reason TEXT, detail TEXT, bytes INTEGER);"
	"CREATE TABLE reason(run INTEGER, reason TEXT, count INTEGER, PRIMARY KEY(run, reason))"
	" WITHOUT ROWID;"
	"CREATE TABLE site_speed(run INTEGER, site INTEGER, samples INTEGER, app_us REAL,"
	" app_sd REAL, fused_us REAL, fused_sd REAL, speedup REAL, speedup_low REAL,"
	" speedup_high REAL, max_rel REAL, PRIMARY KEY(run, site)) WITHOUT ROWID;"
	"BEGIN";

enum statement {
	INSERT_RUN,
	INSERT_OPTION,
	INSERT_SITE,
	INSERT_FRAME,
	INSERT_SAMPLE,
	INSERT_EVENT,
	INSERT_REASON,
	INSERT_SPEED,
	STATEMENT_COUNT
};

static const struct {
	const char *table;
	int columns;
} inserts[STATEMENT_COUNT] = {
	[INSERT_RUN] = {"run", 21},	  [INSERT_OPTION] = {"option", 3},
	[INSERT_SITE] = {"site", 26},	  [INSERT_FRAME] = {"frame", 5},
	[INSERT_SAMPLE] = {"sample", 27}, [INSERT_EVENT] = {"event", 9},
	[INSERT_REASON] = {"reason", 3},  [INSERT_SPEED] = {"site_speed", 11},
};

/* A row being filled from the left. */
struct database {
	sqlite3 *sqlite;
	sqlite3_stmt *statements[STATEMENT_COUNT];
	char *unfinished; /* its path until it is complete */
	sqlite3_stmt *row;
	int column;
};

static int database_problem(struct export *export)
{
	struct database *database = export->own;

	snprintf(export->problem, sizeof(export->problem), "SQLite: %s",
		 sqlite3_errmsg(database->sqlite));
	return -EIO;
}

static void row_begin(struct database *database, enum statement which)
{
	database->row = database->statements[which];
	database->column = 0;
	sqlite3_clear_bindings(database->row);
}

static void put_count(struct database *database, uint64_t value)
{
	sqlite3_bind_int64(database->row, ++database->column, (sqlite3_int64)value);
}

/* NULL for what is unknown, and an integer for what is one. */
static void put_number(struct database *database, double value)
{
	database->column++;
	if (!isfinite(value))
		return;
	if (value == floor(value) && fabs(value) < 9e15)
		sqlite3_bind_int64(database->row, database->column, (sqlite3_int64)value);
	else
		sqlite3_bind_double(database->row, database->column, value);
}

/* "" is NULL: the log does not tell. */
static void put_text(struct database *database, const char *text)
{
	database->column++;
	if (*text)
		sqlite3_bind_text(database->row, database->column, text, -1, SQLITE_TRANSIENT);
}

/* A list or object of the log, as JSON. */
static void put_json(struct database *database, const json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	put_text(database, text ? text : "");
	free(text);
}

static void put_texts(struct database *database, const json_t *record, const char *const *keys)
{
	for (; *keys; keys++)
		put_text(database, text_of(record, *keys));
}

static void put_numbers(struct database *database, const json_t *record, const char *const *keys)
{
	for (; *keys; keys++)
		put_number(database, number_of(record, *keys, NAN));
}

static int row_end(struct export *export)
{
	struct database *database = export->own;
	int result = sqlite3_step(database->row);

	sqlite3_reset(database->row);
	return result == SQLITE_DONE ? 0 : database_problem(export);
}

static int sqlite_sample(void *context, struct run_log *run, const struct sample *sample)
{
	struct export *export = context;
	struct database *database = export->own;
	const double numbers[] = {
		sample->at_us,
		sample->stream,
		sample->app_us,
		sample->fused_us,
		sample->parts_us[PART_GEMM1],
		sample->parts_us[PART_MIDDLE],
		sample->parts_us[PART_SOFTMAX],
		sample->parts_us[PART_GEMM2],
		sample->max_abs,
		sample->max_rel,
		sample->rmse,
		sample->cosine,
		sample->beyond,
		sample->worst_index,
		sample->worst_app,
		sample->worst_fused,
		sample->nonfinite,
		sample->reference_rows,
		sample->app_max,
		sample->app_rmse,
		sample->fused_max,
		sample->fused_rmse,
	};

	row_begin(database, INSERT_SAMPLE);
	database->column++; /* id */
	put_count(database, (uint64_t)export_run_index(export, run) + 1);
	put_count(database, sample->site);
	put_count(database, sample->occurrence);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		put_number(database, numbers[i]);
	put_text(database, sample->verdict);
	return row_end(export);
}

static int sqlite_record(void *context, struct run_log *run, const json_t *record)
{
	/* The member that says what happened, by type. */
	static const char *const events[][2] = {
		{"state", "state"}, {"decline", ""}, {"materialise", "by"}, {"violation", "what"}};
	struct export *export = context;
	struct database *database = export->own;
	const char *type = text_of(record, "type"), *what = NULL;

	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		if (!strcmp(events[i][0], type))
			what = text_of(record, events[i][1]);
	}
	if (!what)
		return 0;
	row_begin(database, INSERT_EVENT);
	database->column++; /* id */
	put_count(database, (uint64_t)export_run_index(export, run) + 1);
	put_number(database, number_of(record, "site", NAN));
	put_text(database, type);
	put_number(database, number_of(record, "occurrence", NAN));
	put_text(database, what);
	put_text(database, text_of(record, "reason"));
	put_text(database, text_of(record, "detail"));
	put_number(database, number_of(record, "bytes", NAN));
	return row_end(export);
}

static int insert_run(struct export *export, int index)
{
	static const char *const texts[] = {"host", "start", "mode", "gpu", "uuid", NULL};
	static const char *const numbers[] = {"sm", "driver", "cublas", NULL};
	const struct run_log *run = export->set.runs[index];
	struct database *database = export->own;

	row_begin(database, INSERT_RUN);
	put_count(database, (uint64_t)index + 1);
	put_text(database, run->path);
	put_number(database, number_of(run->header, "pid", NAN));
	put_number(database, number_of(run->header, "rank", NAN));
	put_text(database, text_of(run->header, "exe"));
	put_json(database, json_object_get(run->header, "argv"));
	put_texts(database, run->header, texts);
	put_numbers(database, run->header, numbers);
	put_text(database, text_of(run->header, "fashim"));
	put_text(database, run->end);
	put_number(database, run->wall_us > 0 ? run->wall_us : NAN);
	put_number(database, run->counted ? run->overhead_us : NAN);
	put_number(database, run->counted ? (double)run->gemms : NAN);
	put_number(database, run->counted ? (double)run->launches : NAN);
	put_number(database, run->counted ? (double)run->scratch_peak : NAN);
	return row_end(export);
}

static int insert_options(struct export *export, int index)
{
	struct database *database = export->own;
	json_t *options = json_object_get(export->set.runs[index]->header, "options"), *value;
	const char *name;
	int result = 0;

	json_object_foreach(options, name, value)
	{
		row_begin(database, INSERT_OPTION);
		put_count(database, (uint64_t)index + 1);
		put_text(database, name);
		put_text(database, json_is_string(value) ? json_string_value(value) : "");
		result = row_end(export);
		if (result)
			break;
	}
	return result;
}

static int insert_site(struct export *export, int index, const struct site_log *site)
{
	static const char *const shape[] = {"B", "H", "Sq", "Sk", "D", "Dv", NULL};
	static const char *const scales[] = {"scale", "softcap", NULL};
	static const char *const texts[] = {"mask", "kernel", "route", "aliasing", NULL};
	const struct site_counters *counters = &site->counters;
	const double counts[] = {
		(double)counters->seen,
		(double)counters->replaced,
		(double)counters->compared,
		(double)counters->passed,
		(double)counters->materialised,
		(double)counters->snapshots,
		counters->saved_us,
	};
	struct database *database = export->own;

	row_begin(database, INSERT_SITE);
	put_count(database, (uint64_t)index + 1);
	put_count(database, site->number);
	put_numbers(database, site->record, shape);
	put_text(database, text_of(site->record, "dtype"));
	put_numbers(database, site->record, scales);
	put_texts(database, site->record, texts);
	put_json(database, json_object_get(site->record, "chain"));
	put_text(database, site->state);
	put_text(database, site->reason);
	put_text(database, site->detail);
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		put_number(database, site->counted ? counts[i] : NAN);
	return row_end(export);
}

/* The call path of a site, the innermost frame at depth 0. */
static int insert_frames(struct export *export, int index, const struct site_log *site,
			 const char *kind)
{
	const json_t *frames = json_object_get(site->record, kind), *frame;
	struct database *database = export->own;
	size_t depth;
	int result = 0;

	json_array_foreach(frames, depth, frame)
	{
		row_begin(database, INSERT_FRAME);
		put_count(database, (uint64_t)index + 1);
		put_count(database, site->number);
		put_text(database, kind);
		put_count(database, depth);
		put_text(database, json_is_string(frame) ? json_string_value(frame) : "?");
		result = row_end(export);
		if (result)
			break;
	}
	return result;
}

static int insert_sites(struct export *export, int index)
{
	const struct run_log *run = export->set.runs[index];
	int result = 0;

	for (uint32_t i = 0; i < run->site_count && !result; i++) {
		if (!run->sites[i])
			continue;
		result = insert_site(export, index, run->sites[i]);
		if (!result)
			result = insert_frames(export, index, run->sites[i], "python");
		if (!result)
			result = insert_frames(export, index, run->sites[i], "stack");
	}
	return result;
}

static int insert_reasons(struct export *export, int index)
{
	const struct run_log *run = export->set.runs[index];
	struct database *database = export->own;
	int result = 0;

	for (int i = 0; i < run->reason_count && !result; i++) {
		const struct reason_tally *tally = &run->reasons[i];

		row_begin(database, INSERT_REASON);
		put_count(database, (uint64_t)index + 1);
		put_text(database, tally->name);
		put_count(database, tally->count ? tally->count : tally->records);
		result = row_end(export);
	}
	return result;
}

/* What `fashim report` says of the sites' times, by its own columns. */
static int insert_speeds(struct export *export)
{
	static const char *const columns[] = {"app_us",	 "app_sd",	"fused_us",	"fused_sd",
					      "speedup", "speedup_low", "speedup_high", "max_rel"};
	struct report report = {.set = export->set};
	struct database *database = export->own;
	int result = report_build(&report, NULL);

	for (int i = 0; i < report.row_count && !result; i++) {
		const struct report_row *row = &report.rows[i];

		if (!row->app.count)
			continue;
		row_begin(database, INSERT_SPEED);
		put_count(database, (uint64_t)row->run + 1);
		put_count(database, row->site->number);
		put_count(database, row->app.count);
		for (size_t c = 0; c < sizeof(columns) / sizeof(*columns); c++)
			put_number(database, report_column_find(columns[c])->number(row));
		result = row_end(export);
	}
	if (result == -ENOMEM)
		snprintf(export->problem, sizeof(export->problem), "out of memory");
	report.set = (struct log_set){0}; /* not ours to free */
	report_free(&report);
	return result;
}

static int execute(struct export *export, const char *sql)
{
	struct database *database = export->own;

	return sqlite3_exec(database->sqlite, sql, NULL, NULL, NULL) ? database_problem(export) : 0;
}

/* Statements out of the table above: "INSERT INTO site VALUES(?,…)". */
static int prepare(struct export *export)
{
	struct database *database = export->own;
	char sql[160];

	for (int i = 0; i < STATEMENT_COUNT; i++) {
		int used = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES(?", inserts[i].table);

		for (int c = 1; c < inserts[i].columns; c++)
			used += snprintf(sql + used, sizeof(sql) - (size_t)used, ",?");
		snprintf(sql + used, sizeof(sql) - (size_t)used, ")");
		if (sqlite3_prepare_v2(database->sqlite, sql, -1, &database->statements[i], NULL))
			return database_problem(export);
	}
	return 0;
}

static int sqlite_open(struct export *export)
{
	struct database *database = calloc(1, sizeof(*database));
	int result;

	export->own = database;
	if (!database || asprintf(&database->unfinished, "%s.%d.tmp", export->path, getpid()) < 0) {
		if (database)
			database->unfinished = NULL;
		snprintf(export->problem, sizeof(export->problem), "out of memory");
		return -ENOMEM;
	}
	if (sqlite3_open(database->unfinished, &database->sqlite))
		return database_problem(export);
	/* Nobody else sees this file, and after a crash it is thrown away. */
	result = execute(export, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF");
	if (!result)
		result = execute(export, schema);
	return result ? result : prepare(export);
}

static int database_finish(struct database *database)
{
	int result;

	for (int i = 0; i < STATEMENT_COUNT; i++) {
		sqlite3_finalize(database->statements[i]);
		database->statements[i] = NULL;
	}
	result = sqlite3_close(database->sqlite);
	database->sqlite = NULL;
	return result;
}

static int sqlite_write(struct export *export)
{
	struct database *database = export->own;
	int result = 0;

	for (int i = 0; i < export->set.count && !result; i++) {
		result = insert_run(export, i);
		if (!result)
			result = insert_options(export, i);
		if (!result)
			result = insert_sites(export, i);
		if (!result)
			result = insert_reasons(export, i);
	}
	if (!result)
		result = insert_speeds(export);
	if (!result)
		result = execute(export, "COMMIT");
	if (result)
		return result;
	if (database_finish(database)) {
		snprintf(export->problem, sizeof(export->problem), "SQLite: cannot close");
		return -EIO;
	}
	if (rename(database->unfinished, export->path)) {
		result = -errno;
		snprintf(export->problem, sizeof(export->problem), "%s", strerror(errno));
		return result;
	}
	free(database->unfinished);
	database->unfinished = NULL;
	return 0;
}

static void sqlite_close(struct export *export)
{
	struct database *database = export->own;

	if (!database)
		return;
	database_finish(database);
	if (database->unfinished)
		unlink(database->unfinished);
	free(database->unfinished);
	free(database);
}

const struct export_form export_sqlite = {
	.name = "sqlite",
	.alias = "db",
	.needs_file = true,
	.open = sqlite_open,
	.sample = sqlite_sample,
	.record = sqlite_record,
	.write = sqlite_write,
	.close = sqlite_close,
};
