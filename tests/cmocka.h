/* SPDX-License-Identifier: Apache-2.0
 *
 * cmocka, behind the headers that it wants to be there.
 */
#ifndef FASHIM_TESTS_CMOCKA_H
#define FASHIM_TESTS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Each test is given a state, which few look at. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif
