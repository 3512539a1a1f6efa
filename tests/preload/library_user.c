/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that was linked with one particular cuDNN and calls it in the ordinary way. Built
 * twice, for two versions that may live in one process.
 */
int cudnnSetTensor(void *handle, const void *desc, void *y, const void *value);
int user_set(void *handle, const void *desc, void *y, const void *value);

int user_set(void *handle, const void *desc, void *y, const void *value)
{
	int status = cudnnSetTensor(handle, desc, y, value);

	return status;
}
