/* SPDX-License-Identifier: Apache-2.0
 *
 * Those of threads_bodies.h, which includes this, that have to do with what lies in memory: indices
 * and addresses that are loaded, assertions about them, pointers that are held against each other.
 */

BODY(gathered, int, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD_ANY(x, LOAD(y, i)));
})

BODY(gathered_wrapped, long, {
	const int i = BX * DX + TX;
	const long at = LOAD(y, i);

	STORE(o, i, LOAD_ANY(x, at < 0 ? at + wide : at));
})

BODY(gathered_twice, int, {
	const int i = BX * DX + TX;

	if (i < n)
		STORE(o, i, LOAD_ANY(x, LOAD_ANY(y, LOAD(y, i)) * m));
})

SPLIT(gathered_if, int, {
	const int i = BX * DX + TX;
	const int at = LOAD(y, i);
	int v = 7;

	if (at >= 0)
		v = LOAD_ANY(x, at);
	STORE(o, i, v);
})

BODY(gathered_inside, int, {
	const int i = BX * DX + TX;
	int v = 7;

	if (LOAD(x, i) >= 0) {
		v = LOAD_ANY(x, LOAD(y, i) + i);
		SYNC();
		v += LOAD_ANY(x, v * m + i % 5);
		SYNC();
		v ^= LOAD_ANY(x, v * n + i % 7);
	}
	STORE(o, i, v);
})

BODY(gathered_bytes, unsigned char, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD_ANY(x, (LOAD(y, i) ^ 3) * m + i % 5));
})

BODY(gathered_clamped, long, {
	const int i = BX * DX + TX;
	const long at = LOAD(y, i), low = at > 0 ? at : 0;

	STORE(o, i, LOAD_ANY(x, low < wide ? low : wide - 1));
})

/* Rows of a table. */
BODY(embedded, long, {
	const int i = BX * DX + TX;

	if (i < n) {
		const long row = LOAD(y, i / 24);

		STORE(o, i, LOAD_ANY(x, row * m + i % 24));
	}
})

BODY(scattered, int, {
	const int i = BX * DX + TX;

	STORE_ANY(o, LOAD(y, i), LOAD(x, i));
})

/* What is surely written is not all that is. */
BODY(scattered_more, int, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD(x, i));
	STORE_ANY(o, LOAD(y, i), LOAD_ANY(o, LOAD(y, i)) + 1);
})

BODY(gathered_behind, int, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD_ANY(x, (long)LOAD(y, i) + n));
})

BODY(gathered_from_own, int, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD_ANY(o, LOAD(y, i)));
})

BODY(asserted, long, {
	const int i = BX * DX + TX;
	const long at = LOAD(y, i);

	CHECK(at >= 0 && at < m);
	STORE(o, i, LOAD_ANY(x, at));
})

/* Of what the launch alone decides, and so of all that there is. */
BODY(asserted_of_numbers, float, {
	const int i = BX * DX + TX;

	CHECK(m % 5 != 4);
	if (wide < 0)
		STOP();
	STORE(o, i, LOAD(x, i));
})

BODY(stopped_by_data, float, {
	const int i = BX * DX + TX;

	if (LOAD(x, i) > 1)
		STOP();
	STORE(o, i, 1);
})

BODY(asserted_twice, long, {
	const int i = BX * DX + TX;
	const long at = LOAD(y, i);
	long next = at < 0 ? at + wide : at;

	CHECK(i < 100000);
	CHECK(next >= 0 && next < wide);
	next = LOAD_ANY(x, next);
	CHECK(next >= 0);
	if (i < n)
		STORE(o, i, LOAD_ANY(x, next * 2) + LOAD(x, i));
})

/* Others that are called by a register may do anything. */
OPAQUE(printed, int, {
	const int i = BX * DX + TX;

	if (LOAD(x, i) > 0)
		PRINT(i);
	STORE(o, i, 1);
})

/* One pointer made of another. */
OPAQUE(apart, long, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD(x, ((long)y - (long)x) / 64 * 8 + LOAD(x, i)));
})

OPAQUE(apart_at_least, long, {
	const int i = BX * DX + TX;
	const long far = ((long)y - (long)x) >> 3;

	STORE(o, i, LOAD(x, LOAD(o, i) + (far > 0 ? far : wide)));
})

OPAQUE(apart_if, long, {
	const int i = BX * DX + TX;
	long far = LOAD(o, i);

	if (far > n)
		far = ((long)y - (long)x) >> 3;
	STORE(o, i, LOAD(x, far));
})

OPAQUE(apart_or_loaded, long, {
	const int i = BX * DX + TX;
	long far = ((long)y - (long)x) >> 3;

	if (LOAD(o, i) > n)
		far = LOAD(o, i + 1);
	STORE(o, i, LOAD(x, far));
})

OPAQUE(apart_unless, long, {
	const int i = BX * DX + TX;
	long far = ((long)y - (long)x) >> 3;

	if (LOAD(o, i) > n) {
		far = LOAD(o, i + 1);
		SYNC();
		far += LOAD(o, far);
		SYNC();
		far *= LOAD(o, far + 7);
		SYNC();
	}
	STORE(o, i, LOAD(x, far));
})

OPAQUE(apart_shared, int, {
	SHARED_WORDS(far, 64);

	far[TX % 64] = (int)(((long)y - (long)x) >> 2);
	SYNC();
	STORE(o, TX, LOAD(x, LOAD(o, TX) + far[(TX + 1) % 64]));
})

OPAQUE(loaded, long, {
	const int i = BX * DX + TX;

	STORE(o, i, *(const long *)LOAD(x, i));
})

OPAQUE(either_pointer, int, {
	const int i = BX * DX + TX;
	const int at = LOAD(o, i);
	const int *from = at > n ? x : y;

	STORE(o, i, LOAD(from, at));
})

OPAQUE(until_told, float, {
	int i = BX * DX + TX;

	while (LOAD(x, i) > 0)
		i += 32;
	STORE(o, TX, 1);
})

/* One bit of where a pointer points to tells of no other. */
BODY(aligned, float, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD_ANY(x, ((unsigned long)(x)&64) ? i : i * 4));
})

BODY(compared, float, {
	const int i = BX * DX + TX;

	STORE(o, i, LOAD_ANY(x, x < y ? i : i * 4));
})

OPAQUE(counted, float, { ADD_ATOMIC(o, BX * DX + TX); })

OPAQUE(by_shared, float, {
	SHARED_WORDS(index, 64);

	index[TX % 64] = (int)TX * 3;
	SYNC();
	STORE(o, TX, LOAD(x, index[(TX + 1) % 64]));
})

/* What a warp stored itself is not read: a plain softmax, a row a block, divides it by its sum. */
/* Some threads divide, and others have something else by then in what these do it in. */
BODY(divided_apart, float, {
	const int i = (int)(BX * DX + TX);
	int at = i * 2;

	if (TX % 3 == 1)
		at = (i - 5) / m + (i + 7) % m * 3;
	else if (TX % 3 == 2)
		at = (n - i) / 3;
	if (TY + TZ == 0 && i < n)
		STORE(o, at, LOAD(x, at + 1));
})

/* Rows of matrices, as far as their diagonals, the last first: blocks that are alike are not next
 * to each other. */
BODY(to_diagonal, float, {
	const int row =
		(int)((GX * GY * GZ - 1 - BX - GX * (BY + GY * BZ)) * (DX / WARP) + TX / WARP);
	const int last = row % n;

	if (TY + TZ == 0 && TX / WARP < DX / WARP)
		for (int j = TX % WARP; j <= last; j += WARP)
			STORE(o, row * n + j, LOAD(x, row * n + j));
})

BODY(own_row, float, {
	const int t = TX + DX * (TY + DY * TZ), all = DX * DY * DZ;
	const long row = (long)(BX + GX * (BY + GY * BZ)) * n;
	float sum = 0;

	for (int j = t; j < n; j += all) {
		const float v = LOAD(x, row + j) * 2;

		STORE(o, row + j, v);
		sum += LOAD_OWN(o, row + j);
	}
	sum = OVER_WARP(sum);
	SYNC();
	for (int j = t; j < n; j += all)
		STORE(o, row + j, LOAD_OWN(o, row + j) * sum);
})

/* A row a thread. */
BODY(own_rows, float, {
	const long row = (long)((BX + GX * (BY + GY * BZ)) * DX + TX) * m;
	float sum = 0;

	if (TY + TZ == 0) {
		for (int j = 0; j < m; j++) {
			STORE(o, row + j, LOAD(x, row + j) * 2);
			sum += LOAD_OWN(o, row + j);
		}
		for (int j = 0; j < m; j++)
			STORE(o, row + j, LOAD_OWN(o, row + j) * sum);
	}
})

/* What another warp stored is. */
BODY(others_row, int, {
	const int t = TX + DX * (TY + DY * TZ);
	const int first = (BX + GX * (BY + GY * BZ)) * 256;

	STORE(o, first + t, LOAD(x, t));
	SYNC();
	STORE(o, wide * 64 + first + t, LOAD(o, first + (t ^ 32)));
})

/* And what it perhaps did not store. */
SPLIT(own_perhaps, int, {
	const int i = BX * DX + TX;

	if (LOAD(x, i) > 7)
		STORE(o, i, i);
	STORE(o, wide * 64 + i, LOAD(o, i));
})

/* Rows of a larger tensor. */
BODY(rows_apart, float, {
	const int i = BX * DX + TX;

	STORE(o, i / DX * (DX + 8) + i % DX, LOAD(x, i));
})
