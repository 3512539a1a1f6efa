/* SPDX-License-Identifier: Apache-2.0
 *
 * A log names the program's file with its folder, libraries without: only the program's own frames
 * can be looked up. addr2line reads symbols and debug info alike; it is asked once for a run.
 */
#include "tools/sites/symbolise.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FRAMES = 4096, LINE = 400 };

/* Places of a run's records that hold an address. */
struct asked {
	json_t *stack;
	size_t index;
	uint64_t offset;
};

struct asking {
	const struct run_log *run;
	const char *exe, *name; /* the program's file, and its last part */
	uint64_t base;		/* what its addresses begin with */
	struct asked *asked;
	int count;
};

/* Whether the program's file is the one that ran, as far as one can tell. */
static bool is_at_hand(const struct asking *asking)
{
	const json_t *header = asking->run->header;
	struct stat info;
	struct tm start = {0};
	char host[256] = "";

	if (*asking->exe != '/' || gethostname(host, sizeof(host) - 1) ||
	    strcmp(host, text_of(header, "host")))
		return false;
	if (stat(asking->exe, &info) || !S_ISREG(info.st_mode) ||
	    (info.st_uid != geteuid() && info.st_uid != 0))
		return false;
	return strptime(text_of(header, "start"), "%Y-%m-%dT%H:%M:%SZ", &start) &&
	       info.st_mtime <= timegm(&start);
}

/* The lowest address that the file asks to be loaded at: what the shim's offsets count from. */
static int find_base(struct asking *asking)
{
	const int fd = open(asking->exe, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	Elf64_Ehdr header;
	Elf64_Phdr part;
	int result = -ENOEXEC;

	if (fd < 0)
		return -errno;
	if (pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
	    !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_ident[EI_CLASS] == ELFCLASS64)
		for (int i = 0; result && i < header.e_phnum; i++)
			if (pread(fd, &part, sizeof(part),
				  (off_t)(header.e_phoff + (uint64_t)i * sizeof(part))) ==
				    sizeof(part) &&
			    part.p_type == PT_LOAD) {
				asking->base = part.p_vaddr & ~UINT64_C(4095);
				result = 0;
			}
	close(fd);
	return result;
}

/* "NAME+0x12" of the program itself. */
static bool offset_in(const struct asking *asking, const char *frame, uint64_t *offset)
{
	const size_t length = strlen(asking->name);
	char *end;

	if (strncmp(frame, asking->name, length) || strncmp(frame + length, "+0x", 3))
		return false;
	*offset = strtoull(frame + length + 3, &end, 16);
	return !*end && *offset;
}

static void collect(struct asking *asking)
{
	const struct run_log *run = asking->run;

	for (uint32_t i = 0; i < run->site_count; i++) {
		json_t *stack =
			run->sites[i] ? json_object_get(run->sites[i]->record, "stack") : NULL;
		json_t *frame;
		size_t index;

		json_array_foreach(stack, index, frame)
		{
			const char *text = json_string_value(frame);
			uint64_t offset;

			if (text && asking->count < MOST_FRAMES && offset_in(asking, text, &offset))
				asking->asked[asking->count++] =
					(struct asked){stack, index, offset};
		}
	}
}

/* addr2line with a pipe to its input and one from its output. */
static pid_t start(const struct asking *asking, FILE **in, FILE **out)
{
	int to[2], from[2];
	pid_t child;

	if (pipe2(to, O_CLOEXEC))
		return -1;
	if (pipe2(from, O_CLOEXEC)) {
		close(to[0]);
		close(to[1]);
		return -1;
	}
	child = fork();
	if (child == 0) {
		signal(SIGPIPE, SIG_DFL);
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		execlp("addr2line", "addr2line", "-fCse", asking->exe, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	*in = fdopen(to[1], "w");
	*out = fdopen(from[0], "r");
	return child;
}

static bool next_line(FILE *out, char *line)
{
	if (!fgets(line, LINE, out))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return true;
}

/* Two lines for each address: the function, "??" where none is known, and FILE:LINE. */
static bool put_name(const struct asked *asked, FILE *out)
{
	const char *frame = json_string_value(json_array_get(asked->stack, asked->index));
	char function[LINE], line[LINE], text[3 * LINE];
	bool placed;

	if (!next_line(out, function) || !next_line(out, line))
		return false;
	line[strcspn(line, " ")] = '\0'; /* " (discriminator 2)" */
	placed = strncmp(line, "??", 2) && !strstr(line, ":?");
	if (!strcmp(function, "??"))
		return true;
	snprintf(text, sizeof(text), "%s%s%s (%.100s)", function, placed ? " at " : "",
		 placed ? line : "", frame);
	json_array_set_new(asked->stack, asked->index, json_string(text));
	return true;
}

/* A line goes in and its answer comes out before the next: neither pipe can fill. */
static void ask(const struct asking *asking)
{
	FILE *in = NULL, *out = NULL;
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	pid_t child;

	sigaction(SIGPIPE, &ignore, &before); /* there may be no addr2line */
	child = start(asking, &in, &out);

	for (int i = 0; child > 0 && in && out && i < asking->count; i++) {
		/* The address is that of the return: the call ends one byte before. */
		fprintf(in, "0x%llx\n",
			(unsigned long long)(asking->base + asking->asked[i].offset - 1));
		if (fflush(in) || !put_name(&asking->asked[i], out))
			break;
	}
	if (in)
		fclose(in);
	if (out)
		fclose(out);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	sigaction(SIGPIPE, &before, NULL);
}

void symbolise(struct log_set *set)
{
	for (int i = 0; i < set->count; i++) {
		struct asking asking = {.run = set->runs[i],
					.exe = text_of(set->runs[i]->header, "exe")};

		asking.name = strrchr(asking.exe, '/') ? strrchr(asking.exe, '/') + 1 : asking.exe;
		asking.asked = calloc(MOST_FRAMES, sizeof(*asking.asked));
		if (asking.asked && is_at_hand(&asking) && !find_base(&asking))
			collect(&asking);
		if (asking.count)
			ask(&asking);
		free(asking.asked);
	}
}
