/* SPDX-License-Identifier: Apache-2.0
 *
 * The files are made in a folder of their own and packed by tar. The report in it is made of the
 * logs in it: what was taken out of these is not in that either.
 */
#include "tools/report/report_bundle.h"
#include "tools/base/escaped.h"
#include "tools/base/tool.h"
#include "tools/commands.h"
#include "tools/read/line_reader.h"
#include "tools/read/log_name.h"
#include "tools/read/packed_file.h"
#include "tools/report/private_parts.h"
#include "tools/sites/report_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define USUAL_NAME "fashim-bundle.tar.gz"

/* A bundle in the making. */
struct making {
	const struct report *report;
	const struct bundle *bundle;
	char folder[PATH_MAX];
	int place; /* the same, open */
	const char *output;
	char trace[PATH_MAX]; /* "": none */
	int logs;
	uint64_t records, dropped; /* lines of the logs; those that are no records */
};

static FILE *create(const struct making *making, const char *name)
{
	const int fd = openat(making->place, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* 0, or -errno of whatever failed since the file was opened. */
static int finish(FILE *file)
{
	const bool bad = ferror(file);

	errno = 0;
	return fclose(file) || bad ? -(errno ? errno : EIO) : 0;
}

static int copy_log(struct making *making, struct line_reader *reader, FILE *out)
{
	bool complete;
	size_t length;
	char *line;
	int more;

	while ((more = line_reader_next(reader, &line, &length, &complete)) > 0) {
		json_t *record = json_loadb(line, length, JSON_ALLOW_NUL, NULL);

		if (json_is_object(record) &&
		    (making->bundle->private_parts || !private_parts_remove(record))) {
			json_dumpf(record, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
			fputc('\n', out);
			making->records++;
		} else if (length) {
			making->dropped++; /* who knows what is in it */
		}
		json_decref(record);
	}
	return more;
}

/* The counters of a process that was killed, or runs: numbers alone. */
static void copy_counters(const struct making *making, const char *path, const char *name)
{
	char live[PATH_MAX], block[4096];
	FILE *in, *out;
	size_t got;

	snprintf(live, sizeof(live), "%.4000s.live", path);
	in = fopen(live, "re");
	snprintf(live, sizeof(live), "%s.live", name);
	out = in ? create(making, live) : NULL;
	while (out && (got = fread(block, 1, sizeof(block), in)) > 0)
		fwrite(block, 1, got, out);
	if (out)
		fclose(out);
	if (in)
		fclose(in);
}

/* Logs are numbered where there are several: their names are somebody's. */
static int put_log(struct making *making, const char *path)
{
	const bool several = making->report->set.count > 1;
	struct line_reader reader;
	char name[32] = "log.jsonl";
	FILE *out;
	int result = line_reader_open(&reader, path);

	if (result)
		return result;
	making->logs++;
	if (several)
		snprintf(name, sizeof(name), "log-%d.jsonl", making->logs);
	out = create(making, name);
	result = out ? copy_log(making, &reader, out) : -errno;
	if (out && finish(out) && !result)
		result = -EIO;
	line_reader_close(&reader);
	if (!result)
		copy_counters(making, path, name);
	return result;
}

/* What can be read a second time. */
static bool is_file(const char *path)
{
	struct stat info;

	return strcmp(path, "-") != 0 && !(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
}

/* Each file once, however many runs it holds. */
static int put_logs(struct making *making)
{
	const struct log_set *set = &making->report->set;
	int result = 0;

	for (int i = 0; !result && i < set->count; i++) {
		const char *path = set->runs[i]->path;

		if (i && !strcmp(path, set->runs[i - 1]->path))
			continue;
		result = is_file(path) ? put_log(making, path) : -ESPIPE;
		if (result == -ESPIPE)
			complain("a bundle is made of files, not of standard input or a pipe");
		else if (result)
			complain("%s: %s", path, strerror(-result));
	}
	return result;
}

/* The libraries of the call stacks, without their offsets: what the program's frameworks are. */
static void print_libraries(const struct making *making, FILE *out)
{
	json_t *seen = json_object();
	const char *name;
	json_t *value;
	bool first = true;

	for (int i = 0; i < making->report->row_count; i++) {
		const json_t *stack =
			json_object_get(making->report->rows[i].site->record, "stack");
		size_t index;

		json_array_foreach(stack, index, value)
		{
			char library[128] = "";

			if (json_is_string(value))
				snprintf(library, sizeof(library), "%s", json_string_value(value));
			library[strcspn(library, "+ (")] = '\0';
			name = strrchr(library, '/') ? strrchr(library, '/') + 1 : library;
			if (strstr(name, ".so"))
				json_object_set_new(seen, name, json_true());
		}
	}
	json_object_foreach(seen, name, value)
	{
		safe_printf(out, "%s%s", first ? "libraries: " : ", ", name);
		first = false;
	}
	if (!first)
		fputc('\n', out);
	json_decref(seen);
}

static int put_versions(const struct making *making)
{
	FILE *out = create(making, "versions.txt");
	char device[300];

	if (!out)
		return -errno;
	fprintf(out, "bundled by fashim %s\n", FASHIM_VERSION);
	for (int i = 0; i < making->report->set.count; i++) {
		const struct run_log *run = making->report->set.runs[i];

		safe_printf(out, "log of fashim %s: %s, mode %s\n", text_of(run->header, "fashim"),
			    report_device(run, device, sizeof(device)),
			    text_of(run->header, "mode"));
	}
	print_libraries(making, out);
	return finish(out);
}

static int wait_for(pid_t child)
{
	int status = 0;

	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return child < 0 ? -errno : status ? -EIO : 0;
}

/* What `fashim report` says of the logs in the folder. */
static int put_report(const struct making *making)
{
	char name[] = "fashim report", color[] = "--color=never", pager[] = "--no-pager",
	     folder[] = ".";
	char *argv[] = {name, color, pager, folder, NULL};
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		if (fchdir(making->place) || !freopen("report.txt", "w", stdout))
			_exit(EXIT_FAILED);
		_exit(cmd_report(4, argv) || fflush(stdout) ? EXIT_FAILED : EXIT_OK);
	}
	return wait_for(child);
}

/* The trace that a log says was recorded, seen from here and from the log's folder. */
static void find_trace(struct making *making)
{
	const struct run_log *run = making->report->set.runs[0];
	const char *pattern = text_of(json_object_get(run->header, "options"), "FASHIM_RECORD");
	const char *slash = strrchr(run->path, '/');
	char beside[PATH_MAX];
	struct log_names found;

	if (making->bundle->trace) {
		snprintf(making->trace, sizeof(making->trace), "%s", making->bundle->trace);
		return;
	}
	if (!*pattern)
		return;
	found = log_names_find(pattern);
	if (!found.count && slash && *pattern != '/') {
		snprintf(beside, sizeof(beside), "%.*s%s", (int)(slash + 1 - run->path), run->path,
			 pattern);
		found = log_names_find(beside);
	}
	if (found.count == 1)
		snprintf(making->trace, sizeof(making->trace), "%s", found.names[0]);
	log_names_free(&found);
}

static int put_trace(const struct making *making)
{
	char block[1 << 16];
	pid_t unpacker;
	ssize_t got = 0;
	FILE *out;
	int result, fd = packed_file_open(making->trace, &unpacker);

	if (fd < 0) {
		complain("%s: %s", making->trace, strerror(-fd));
		return fd;
	}
	out = create(making, "trace.txt");
	while (out && (got = read(fd, block, sizeof(block))) > 0)
		fwrite(block, 1, (size_t)got, out);
	result = !out || got < 0 ? -errno : 0;
	close(fd);
	if (packed_file_end(unpacker) && !result)
		result = -EBADMSG;
	if (out && finish(out) && !result)
		result = -EIO;
	if (result)
		complain("%s: %s", making->trace, strerror(-result));
	return result;
}

static int pack(const struct making *making)
{
	const int out = open(
		making->output,
		O_WRONLY | O_CREAT | O_CLOEXEC | (making->bundle->output ? O_TRUNC : O_EXCL), 0666);
	pid_t child;
	int result;

	if (out < 0) {
		result = -errno;
		complain("%s: %s%s", making->output, strerror(errno),
			 errno == EEXIST ? "; name another with -o" : "");
		return result;
	}
	child = fork();
	if (child == 0) {
		dup2(out, STDOUT_FILENO);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* what tar has to say, we say */
		execlp("tar", "tar", "-C", making->folder, "--format=ustar", "--owner=0",
		       "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "--sort=name",
		       "--transform=s,^\\.,fashim-bundle,", "-czf", "-", ".", (char *)NULL);
		_exit(127);
	}
	close(out);
	result = wait_for(child);
	if (result) {
		complain("%s: tar and gzip could not write it, or are not there", making->output);
		if (!making->bundle->output)
			unlink(making->output);
	}
	return result;
}

static void say(const struct making *making)
{
	const bool private = making->bundle->private_parts;
	const char *plural = making->logs == 1 ? "" : "s";
	struct stat info = {.st_size = 0};

	stat(making->output, &info);
	safe_printf(stdout, "%s: %lld KiB, in it\n", making->output,
		    (long long)(info.st_size + 1023) / 1024);
	printf("  %-14s of fashim, GPU, driver, cuBLAS, and the libraries in call stacks\n",
	       "versions.txt");
	printf("  %-14s %d log%s, %llu records, %s arguments, host name and folders\n",
	       making->logs == 1 ? "log.jsonl" : "log-N.jsonl", making->logs, plural,
	       (unsigned long long)making->records, private ? "with" : "without");
	printf("  %-14s what `fashim report` says of %s\n", "report.txt",
	       making->logs == 1 ? "it" : "them");
	if (*making->trace)
		printf("  %-14s the recorded calls: names of kernels, sizes, and the numbers they "
		       "were given\n",
		       "trace.txt");
	if (making->dropped)
		printf("left out: %llu line%s of the log%s, no records\n",
		       (unsigned long long)making->dropped, making->dropped == 1 ? "" : "s",
		       plural);
	if (!*making->trace)
		puts("There is no trace in it: FASHIM_RECORD=app.trace records one, --trace names "
		     "it.");
	puts(private ? "Nothing of the environment is in it but the values of FASHIM options."
		     : "Nothing of the environment is in it but the values of FASHIM options; "
		       "look before you send it.");
}

static int make_folder(struct making *making)
{
	const char *place = getenv("TMPDIR");

	snprintf(making->folder, sizeof(making->folder), "%s/fashim-XXXXXX",
		 place && *place ? place : "/tmp");
	making->place = mkdtemp(making->folder)
				? open(making->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
				: -1;
	if (making->place >= 0)
		return 0;
	complain("%s: %s", making->folder, strerror(errno));
	return -EIO;
}

static void remove_folder(const struct making *making)
{
	DIR *folder = fdopendir(making->place);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder)) != NULL)
		unlinkat(making->place, entry->d_name, 0);
	if (folder)
		closedir(folder);
	rmdir(making->folder);
}

int report_bundle(const struct report *report, const struct bundle *bundle)
{
	struct making making = {.report = report,
				.bundle = bundle,
				.output = bundle->output ? bundle->output : USUAL_NAME};
	int result = make_folder(&making);

	if (result)
		return result;
	find_trace(&making);
	result = put_logs(&making);
	if (!result && *making.trace)
		result = put_trace(&making);
	if (!result && (put_versions(&making) || put_report(&making))) {
		result = -EIO;
		complain("%s: %s", making.folder, strerror(EIO));
	}
	if (!result)
		result = pack(&making);
	remove_folder(&making);
	if (!result)
		say(&making);
	return result;
}
