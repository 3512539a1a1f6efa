/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/tma.cuh for the host build: barriers in shared memory, barriers of part of a block.
 * Addresses in shared memory are distances from its start. There are no copies of boxes.
 */
#ifndef FASHIM_TMA_CUH
#define FASHIM_TMA_CUH

#include "kernels/device.cuh"

struct sim_phases {
	uint16_t arrivals, left;
	uint32_t phase;
};

static inline unsigned char *sim_shared(uint32_t at)
{
	return (unsigned char *)sim_current->block->shared + at;
}

static inline uint32_t shared_address(const void *p)
{
	return (uint32_t)((const unsigned char *)p - sim_shared(0));
}

static inline void barrier_init(uint32_t barrier, uint32_t arrivals)
{
	*(struct sim_phases *)sim_shared(barrier) = {(uint16_t)arrivals, (uint16_t)arrivals, 0};
}

static inline void barriers_ready(void)
{
}

static inline void barrier_arrive(uint32_t barrier)
{
	struct sim_phases *const b = (struct sim_phases *)sim_shared(barrier);

	if (--b->left == 0) {
		b->left = b->arrivals;
		b->phase++;
	}
}

static inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
	while ((((struct sim_phases *)sim_shared(barrier))->phase & 1) == parity)
		sim_yield();
}

template <int REGISTERS> static inline void take_registers(void)
{
}
template <int REGISTERS> static inline void give_registers(void)
{
}

static inline void part_sync(int id, int threads)
{
	sim_barrier((unsigned)id, (unsigned)threads);
}

#endif
