/* Nodes that become several ops: SkipLayerNormalization and SkipSimplifiedLayerNormalization, variadic functions (Sum,
 * Mean, Max, Min), and Gemm with alpha or beta. */
#include "cpu/compile/expand.h"
#include "inlay/check.h"

/* Adds an op with in_count inputs and one output. */
static cpu_op *add_op(cpu_reader *reader, const cpu_op *like, const char *op_type, uint32_t in_count)
{
    cpu_op *op = &reader->compiled->ops[reader->compiled->op_count++];

    *op = *like;
    op->row = cpu_row(op_type);
    INLAY_CHECK(op->row != NULL);
    op->in_count = in_count;
    op->out_count = 1;
    op->in = reader->next;
    op->out = op->in + in_count;
    reader->next = op->out + 1;
    return op;
}

/* Adds a value inside the region, with the shape of a value of the host's graph. */
static uint32_t inner_value(cpu_reader *reader, uint32_t snapshot)
{
    inlay_compiled *compiled = reader->compiled;

    compiled->values[compiled->value_count] = (cpu_value){ .snapshot = snapshot,
                                                           .input = INLAY_NONE,
                                                           .output = INLAY_NONE,
                                                           .weights = INLAY_NONE,
                                                           .constant = INLAY_NONE,
                                                           .readers = { INLAY_NONE, INLAY_NONE },
                                                           .type = ELEMENT_FLOAT };
    return compiled->value_count++;
}

/* Adds y = function(a, b). y: a value; INLAY_NONE: a new value with the shape of `like`. Returns y. */
static uint32_t add_binary(cpu_reader *reader, const cpu_op *parsed, const char *op_type, element_function function,
                           uint32_t a, uint32_t b, uint32_t y, uint32_t like)
{
    cpu_op *op = add_op(reader, parsed, op_type, 2);

    INLAY_CHECK(a < reader->compiled->value_count && b < reader->compiled->value_count);
    op->function = function;
    op->in[0] = a;
    op->in[1] = b;
    op->out[0] = y != INLAY_NONE ? y : inner_value(reader, like);
    reader->compiled->values[a].uses++;
    reader->compiled->values[b].uses++;
    return op->out[0];
}

/* Adds y = factor * input, with y as in add_binary(). */
static uint32_t add_scale(cpu_reader *reader, const cpu_op *parsed, float factor, uint32_t input, uint32_t y,
                          uint32_t like)
{
    cpu_op *op = add_op(reader, parsed, "Neg", 1);

    INLAY_CHECK(input < reader->compiled->value_count);
    op->unary_count = 1;
    op->unary[0] = (cpu_unary){ FUNCTION_LINEAR, factor, 0 };
    op->in[0] = input;
    op->out[0] = y != INLAY_NONE ? y : inner_value(reader, like);
    reader->compiled->values[input].uses++;
    return op->out[0];
}

/* Expands to Add of the bias, Add of the residual, and the normalisation. */
static void expand_skip(cpu_reader *reader, const inlay_node_info *info, const cpu_op *parsed)
{
    bool simple = strcmp(parsed->row->op_type, "SkipSimplifiedLayerNormalization") == 0;
    uint32_t in[5] = { INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE }, bias, x, sum = INLAY_NONE;
    cpu_op *op;

    for (uint32_t i = 0; i < info->input_count && i < 5; i++)
        in[i] = cpu_reader_value(reader, info->inputs[i]);
    bias = simple ? in[3] : in[4];
    x = in[0];
    if (bias != INLAY_NONE)
        x = add_binary(reader, parsed, "Add", FUNCTION_ADD, x, bias, INLAY_NONE, info->outputs[0]);
    if (info->output_count > CPU_SKIP_SUM)
        sum = cpu_reader_value(reader, info->outputs[CPU_SKIP_SUM]);
    x = add_binary(reader, parsed, "Add", FUNCTION_ADD, x, in[1], sum, info->outputs[0]);
    op = add_op(reader, parsed, simple ? "RMSNormalization" : "LayerNormalization", simple ? 2 : 3);
    op->axis = inlay_graph_value(reader->request->graph, info->inputs[0])->rank - 1;
    op->in[0] = x;
    op->in[1] = in[2];
    if (!simple)
        op->in[2] = in[3];
    for (uint32_t i = 0; i < op->in_count; i++)
        if (op->in[i] != INLAY_NONE)
            reader->compiled->values[op->in[i]].uses++;
    op->out[0] = cpu_reader_value(reader, info->outputs[0]);
}

/* Expands to a chain of binary ops. Intermediate values have the shape of the result, to which each operand is
 * broadcast. */
static void expand_variadic(cpu_reader *reader, const inlay_node_info *info, const cpu_op *parsed)
{
    const bool mean = strcmp(parsed->row->op_type, "Mean") == 0;
    const char *op_type = parsed->function == FUNCTION_ADD ? "Add" : parsed->row->op_type;
    const uint32_t n = info->input_count, y = cpu_reader_value(reader, info->outputs[0]);
    uint32_t x = cpu_reader_value(reader, info->inputs[0]);

    for (uint32_t i = 1; i < n; i++)
        x = add_binary(reader, parsed, op_type, parsed->function, x, cpu_reader_value(reader, info->inputs[i]),
                       mean || i + 1 < n ? INLAY_NONE : y, info->outputs[0]);
    if (mean || n == 1)
        (void)add_scale(reader, parsed, 1 / (float)n, x, y, INLAY_NONE);
}

/* Expands to alpha * (A * B) + beta * C. With beta 0, C is not read (operators/gemm.c). */
static void expand_gemm(cpu_reader *reader, const inlay_node_info *info, const cpu_op *parsed)
{
    const uint32_t y = cpu_reader_value(reader, info->outputs[0]);
    const bool has_sum = info->input_count > 2 && info->inputs[2] != INLAY_NONE && parsed->beta != 0;
    uint32_t x, c;
    cpu_op *op = add_op(reader, parsed, "Gemm", 2);

    op->alpha = op->beta = 1;
    for (uint32_t i = 0; i < 2; i++) {
        op->in[i] = cpu_reader_value(reader, info->inputs[i]);
        reader->compiled->values[op->in[i]].uses++;
    }
    x = op->out[0] = inner_value(reader, info->outputs[0]);
    x = add_scale(reader, parsed, parsed->alpha, x, has_sum ? INLAY_NONE : y, info->outputs[0]);
    if (!has_sum)
        return;
    c = cpu_reader_value(reader, info->inputs[2]);
    if (parsed->beta != 1)
        c = add_scale(reader, parsed, parsed->beta, c, INLAY_NONE, info->inputs[2]);
    (void)add_binary(reader, parsed, "Add", FUNCTION_ADD, x, c, y, INLAY_NONE);
}

static bool is_variadic(const char *op_type)
{
    return strcmp(op_type, "Sum") == 0 || strcmp(op_type, "Mean") == 0 || strcmp(op_type, "Max") == 0 ||
           strcmp(op_type, "Min") == 0;
}

void cpu_expand_bounds(const inlay_node_info *info, uint32_t *out_ops, uint32_t *out_numbers)
{
    const char *op_type = info->op_type.data;

    *out_ops = 1;
    *out_numbers = info->input_count + info->output_count;
    if (strncmp(op_type, "Skip", 4) != 0 && strcmp(op_type, "Gemm") != 0 && !is_variadic(op_type))
        return;
    *out_ops += info->input_count + 3;
    *out_numbers += 4 * *out_ops; /* at most four for each op, including new values */
}

bool cpu_expand(cpu_reader *reader, const inlay_node_info *info, const cpu_op *parsed)
{
    const cpu_family *family = parsed->row->family;

    if (family->kind == CPU_FAMILY_SKIP_NORM)
        expand_skip(reader, info, parsed);
    else if (family->kind == CPU_FAMILY_BINARY && is_variadic(parsed->row->op_type) &&
             (info->input_count != 2 || strcmp(parsed->row->op_type, "Mean") == 0))
        expand_variadic(reader, info, parsed);
    else if (strcmp(parsed->row->op_type, "Gemm") == 0 &&
             (parsed->alpha != 1 || (info->input_count > 2 && info->inputs[2] != INLAY_NONE && parsed->beta != 1)))
        expand_gemm(reader, info, parsed);
    else
        return false;
    return true;
}
