/* quant.h - helpers of the integer operators (quant*.c). */
#ifndef CPU_QUANT_H
#define CPU_QUANT_H
#include "cpu/quantized/byte_loops.h"
#include "cpu/quantized/quantize.h"
#include "cpu/quantized/byte_set.h"
#include "cpu/region/build.h"

struct inlay_node_info;
struct inlay_value_info;

struct inlay_cost_request;

bool q_is_bytes(const struct inlay_value_info *value); /* uint8 or int8 */
/* Is the value a constant float scale above 0, of 1 or `most` elements? */
bool q_known_scale(const struct inlay_value_info *value, int64_t most, const char *what, float *out_first,
                   kit_refusal *why);
/* Is the value a constant zero point of one element, of the type of `of`? NULL means 0. */
bool q_known_zero(const struct inlay_value_info *value, const struct inlay_value_info *of, const char *what,
                  int32_t *out, kit_refusal *why);

/* Values of cpu_operator.takes. */
bool cpu_takes_any(const kit_node *node);
bool cpu_takes_bytes(const kit_node *node);      /* the first input is int8 or uint8 */
bool cpu_takes_int32_cast(const kit_node *node); /* Cast of integer sums to float, with or without their bias */
/* The nodes of an integer bias (quant_bias.c): Cast, Reshape, Add. */
bool cpu_takes_bias_cast(const kit_node *node);
bool cpu_takes_bias_view(const kit_node *node);
bool cpu_takes_bias(const kit_node *node);
/* The two inputs of that Add. */
uint32_t cpu_sums_of(const cpu_op *add);
uint32_t cpu_bias_of(const cpu_op *add);
/* The time in which the reference core expands n-bit weights while it multiplies `rows` rows by them. */
double cpu_expand_ns(double weights, double bits, double rows);
/* Adds the cost of an operator of integers.def, without the time of products by weights, and of reading them:
 * *out_multiply_ns of the reference core, and *out_weight_bytes; both are unchanged without weights. */
void cpu_quant_cost(const cpu_op *op, const struct inlay_cost_request *request, const struct inlay_node_info *info,
                    struct inlay_cost *cost, double *out_multiply_ns, double *out_weight_bytes);

/* Moves op `next`, the only reader of the group's output, into the group if it adds a bias to the integers, or converts
 * them into a type that the group's kernel can write. */
void cpu_fuse_integer_reader(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
/* Moves a QuantizeLinear to the end of a group: an integer convolution and its epilogue. */
void cpu_fuse_final_quantize(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group);
/* Groups each QuantizeLinear with the functions of dequantized values before it. at: [op_count], indexed by the group's
 * last op. */
inlay_status cpu_group_quantize_chains(cpu_build *build, uint8_t *taken, cpu_group *at);

/* The place of the value in a layout without gaps; `as`: the layout that it must have, NULL = any. */
inlay_status q_read_dense(cpu_build *build, uint32_t value, const tensor_layout *as, cpu_place *out);
/* layout with another element type. */
static inline tensor_layout q_typed(const tensor_layout *layout, element_type type)
{
    tensor_layout typed = *layout;

    typed.type = type;
    return typed;
}
inlay_status q_no_memory(const cpu_build *build);
/* From now on, packs of this constant of uint8 weights hold int8: each weight minus `zero`. INLAY_UNSUPPORTED: packs
 * with another zero point exist. */
INLAY_NODISCARD inlay_status q_shift(cpu_build *build, uint32_t value, uint8_t zero);

/* Emits the chain of functions that ends in the group's QuantizeLinear (quant_chain.c); *out_done = false: not a
 * chain. */
inlay_status q_lower_chain(cpu_build *build, const cpu_group *group, bool *out_done);

static inline void q_dequantize(float *output, const void *input, bool is_signed, int64_t n, float scale, float zero)
{
    KERNEL_BEST(byte_loops)->dequantize(output, input, is_signed, n, scale, zero);
}

/* ONNX QuantizeLinear-13. NaN becomes the lower bound. */
static inline void q_quantize(void *output, const float *input, bool is_signed, int64_t n, float scale, float zero)
{
    quantize_fn *const quantize = KERNEL_BEST(quantize);

    if (quantize != NULL && quantize_divides(scale))
        quantize(output, input, is_signed, n, scale, zero);
    else
        KERNEL_BEST(byte_loops)->quantize(output, input, is_signed, n, scale, zero);
}
#endif
