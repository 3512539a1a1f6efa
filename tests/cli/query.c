/* SPDX-License-Identifier: Apache-2.0
 *
 * query DATABASE SQL: the rows, a line each, columns separated by '|', NULL as "NULL".
 */
#include <sqlite3.h>
#include <stdio.h>

static int print_row(void *unused, int count, char **values, char **names)
{
	(void)unused;
	(void)names;
	for (int i = 0; i < count; i++)
		printf("%s%s", i ? "|" : "", values[i] ? values[i] : "NULL");
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	sqlite3 *database;
	char *problem = NULL;

	if (argc != 3 || sqlite3_open_v2(argv[1], &database, SQLITE_OPEN_READONLY, NULL)) {
		fputs("usage: query DATABASE SQL\n", stderr);
		return 2;
	}
	if (sqlite3_exec(database, argv[2], print_row, NULL, &problem)) {
		fprintf(stderr, "%s\n", problem);
		return 1;
	}
	return sqlite3_close(database);
}
