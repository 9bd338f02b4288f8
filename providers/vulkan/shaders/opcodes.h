/* opcodes.h - constants that shaders and C share. GLSL includes it, too, so it contains only defines. */
#ifndef VULKAN_OPCODES_H
#define VULKAN_OPCODES_H

/* Which element of an input a program loads for element i of the result. */
#define AT_NONE 0u
#define AT_LINEAR 1u
#define AT_SCALAR 2u
#define AT_STRIDED 3u
#define AT_COLUMN 4u   /* one element per column; the shader supplies the column */
#define AT_POSITION 5u /* the position itself */

/* Specialization constants. Constants of operations and types are not passed to the driver: gpu_patch.c replaces the
 * placeholder functions by the functions that they select. */
#define ID_LOCAL 0
#define ID_RANK 1
#define ID_SLOTS 2
#define ID_SLOT 3   /* 16 of them: operation | a << 8 | b << 16 | c << 24 */
#define ID_INPUT 19 /* 8 of them: type | AT_ << 8 */
#define ID_OUT 27   /* type */
#define ID_LOAD 28  /* 3 of them: types of the shader's own operands */
#define ID_OWN 31   /* constants of the shader itself, 11 of them */
#define ID_BLOCK 42 /* blocks of weights, see load_blocks: rows of k, columns of a panel, bits, has zero points */
#define ID_COUNT 46

/* Registers of a program: results of slots, inputs, literals, and the value that the shader computed. */
#define REG_SLOT 0u
#define REG_INPUT 16u
#define REG_NUMBER 24u
#define REG_ACC 31u
#define MOST_SLOTS 16
#define MOST_INPUTS 8
#define MOST_NUMBERS 7
#define MOST_RANK 8

/* Addresses in the push constants. */
#define PUSH_OUT 0
#define PUSH_INPUT 1 /* 8 of them */
#define PUSH_OWN 9   /* 6 of them */
#define PUSH_PARAMS 15
#define PUSH_COUNT 16

/* Parameter words of a program: literals, two words each; sizes; strides of each input. */
#define WORD_NUMBER 0u
#define WORD_DIM 16u
#define WORD_STRIDE 24u
#define WORD_OWN 88u

/* Reductions. */
#define RED_SUM 0u
#define RED_MEAN 1u
#define RED_MAX 2u
#define RED_MIN 3u
#define RED_PROD 4u
#define RED_L1 5u
#define RED_L2 6u
#define RED_SUM_SQUARE 7u
#define RED_LOG_SUM 8u
#define RED_LOG_SUM_EXP 9u
#define RED_ARG_MAX 10u
#define RED_ARG_MIN 11u
#define RED_RUNNING 12u /* running sums, one per element */

/* Rows: the function that is applied. */
#define ROW_SOFTMAX 0u
#define ROW_LOG_SOFTMAX 1u
#define ROW_HARDMAX 2u
#define ROW_NORM 3u /* (x - mean) / sqrt(variance + epsilon) */
#define ROW_RMS 4u  /* x / sqrt(mean of squares + epsilon) */
#define ROW_L1 5u
#define ROW_L2 6u

/* Pad: how a coordinate outside of the source is mapped. */
#define PAD_CONSTANT 0u
#define PAD_EDGE 1u
#define PAD_REFLECT 2u
#define PAD_WRAP 3u
#define PAD_NONE 4u
#define PAD_ZERO 5u

/* Matrix multiplications and convolutions. */
#define PRODUCT_WINDOWS 1u
#define PRODUCT_PADDED 2u
#define PRODUCT_PACKED 4u        /* B is packed in panels as wide as the columns of LANES neighbours */
#define PRODUCT_LANE_BY_LANE 8u  /* B is read by loads that are uniform in a subgroup */
#define PRODUCT_SUBGROUPS 16u    /* LANES is the size of subgroups */
#define PRODUCT_TAIL 32u         /* the last panel has columns beyond the result */
#define PRODUCT_LOOPED 64u       /* the epilogue is long and runs in a loop over the elements of a tile */
#define PRODUCT_SIBLINGS 128u    /* each of the first batches has its own B, inputs and result */
#define PRODUCT_STRIPS_LAST 256u /* all columns of a strip before the next strip */
#define PRODUCT_A_BY_ROWS 512u   /* neighbouring rows of A are contiguous */
#define PRODUCT_B_BY_K 1024u     /* neighbouring k of B are contiguous */
#define PRODUCT_OUT_BY_ROWS 2048u
#define PRODUCT_A_WIDE 4096u /* eight neighbouring elements of A are aligned, and exist or not together */
#define PRODUCT_B_WIDE 8192u
/* Products of 8-bit integers. */
#define PRODUCT_A_UNSIGNED 16384u
#define PRODUCT_B_UNSIGNED 32768u
#define PRODUCT_A_ZERO 65536u   /* A has a zero point */
#define PRODUCT_B_ZERO 131072u  /* B has one, or one for each column */
#define PRODUCT_BIAS 262144u    /* int32, one for each column */
#define PRODUCT_INT32 524288u   /* the sums are the result, without a program */

/* Pools, and depthwise convolution. */
#define POOL_MAX 0u
#define POOL_AVERAGE 1u
#define POOL_LP 2u
#define POOL_SQUARES 3u
#define POOL_WEIGHTED 4u
#endif
