/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and parameter blocks of the kernels in aten.cu, for them and for their launches.
 */
#ifndef FASHIM_ATEN_H
#define FASHIM_ATEN_H

/* A name below as a string. */
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

/* clang-format off: one name, one line */
#define ATEN_SCALE                                                                                 \
	_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIN3c104HalfES4_S4_NS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_
#define ATEN_COPY                                                                                  \
	_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE8_clEvEUlN3c104HalfEE_St5arrayIPcLm2EEEEviT0_T1_
#define ATEN_FILL                                                                                  \
	_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIN3c104HalfEEESt5arrayIPcLm1EEEEviT0_T1_
#define ATEN_ADD_STRIDED                                                                           \
	_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_addIN3c104HalfEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_
#define ATEN_MULTIPLY_STRIDED                                                                      \
	_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_13BinaryFunctorIN3c104HalfES5_S5_NS0_15binary_internal10MulFunctorIfEEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_
#define ATEN_DIVIDE_STRIDED                                                                        \
	_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_13BinaryFunctorIN3c104HalfES5_S5_NS0_15binary_internal10DivFunctorIS5_EEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_
#define ATEN_COPY_STRIDED                                                                          \
	_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE8_clEvEUlN3c104HalfEE_EEvS4_RKT_EUliE_EEviT1_
#define ATEN_MASKED_FILL                                                                           \
	_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_44_GLOBAL__N__50c743a2_11_Indexing_cu_89862edb18masked_fill_kernelERNS_14TensorIteratorERKN3c106ScalarEENKUlvE_clEvENKUlvE9_clEvEUlNS6_4HalfEbE_EEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_
#define ATEN_SOFTMAX                                                                               \
	_ZN2at6native12_GLOBAL__N_120softmax_warp_forwardIN3c104HalfES4_fLi7ELb0ELb0EEEvPT0_PKT_iiiPKbib
#define ATEN_SOFTMAX_SPATIAL                                                                       \
	_ZN2at6native43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6326cunn_SpatialSoftMaxForwardIN3c104HalfEfS4_iNS1_22SoftMaxForwardEpilogueEEEvPT1_PKT_T2_S9_S9_
#define ATEN_SCALE_F32                                                                             \
	_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_
#define ATEN_SOFTMAX_F32                                                                           \
	_ZN2at6native12_GLOBAL__N_120softmax_warp_forwardIfffLi7ELb0ELb0EEEvPT0_PKT_iiiPKbib
#define ATEN_COPY_STRIDED_F32                                                                      \
	_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_EEviT1_
#define ATEN_CAST                                                                                  \
	_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_
/* clang-format on */

struct aten_scalar_functor {
	unsigned nothing; /* an empty functor: its bytes are never set */
	float scalar;
};

struct aten_empty_functor {
	unsigned char nothing;
};

/* What a kernel that casts reads or writes: fp16 or fp32 here. */
enum aten_scalar_type { ATEN_HALF = 5, ATEN_FLOAT = 6 };
struct aten_cast {
	unsigned char type; /* enum aten_scalar_type; the next three bytes are never set */
	unsigned bytes;
};

struct aten_fill_functor {
	unsigned short value;
};

struct aten_pointers1 {
	char *at[1];
};

struct aten_pointers2 {
	char *at[2];
};

struct aten_calculator {
	int dims;
	struct {
		unsigned divisor, magic, shift;
	} size[25]; /* the first dimension runs fastest; beyond dims: never set */
};

struct aten_strided2 {
	struct aten_calculator calculator;
	unsigned strides[50]; /* bytes, [dimension][operand] */
	char *at[2];
	unsigned char nothing[16];
};

struct aten_strided3 {
	struct aten_calculator calculator;
	unsigned strides[75];
	char *at[3];
	float factor; /* of the second addend */
	unsigned char nothing[12];
};

struct aten_filled { /* out, in, mask */
	struct aten_calculator calculator;
	unsigned strides[75];
	char *at[3];
	unsigned short value; /* fp16 */
	unsigned char nothing[6];
};

#endif
