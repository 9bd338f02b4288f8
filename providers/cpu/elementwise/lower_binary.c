/* Binary elementwise operators: parsing and lowering. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"

static bool parse_binary(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    static const struct {
        const char *op_type;
        element_function function;
    } functions[] = { { "Add", FUNCTION_ADD },     { "Sub", FUNCTION_SUB }, { "Mul", FUNCTION_MUL },
                      { "Div", FUNCTION_DIV },     { "Max", FUNCTION_MAX }, { "Min", FUNCTION_MIN },
                      { "PRelu", FUNCTION_PRELU }, { "Sum", FUNCTION_ADD }, { "Mean", FUNCTION_ADD } };

    if (!cpu_is_large(node, why))
        return false;
    for (uint32_t i = 0; i < node->info->input_count; i++)
        if (kit_input(node, i) == NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "input %u is omitted", i);
    for (uint32_t i = 0; i < KIT_COUNT(functions); i++)
        if (strcmp(op->row->op_type, functions[i].op_type) == 0)
            op->function = functions[i].function;
    return true;
}

/* Lowers an op whose operands both have the result's dims to one loop with the epilogue. */
static inlay_status lower_whole(cpu_build *build, const cpu_group *group, cpu_place x0, cpu_place x1, bool overwrite)
{
    const uint32_t original_buffer = x0.buffer;
    inlay_status status;

    if (layout_is_image(&x1.layout) && !layout_is_image(&x0.layout))
        INLAY_TRY(cpu_reorder(build, &x0, &x1.layout, &x0));
    else
        INLAY_TRY(cpu_reorder(build, &x1, &x0.layout, &x1));
    status = cpu_lower_binary_chain(build, group, &x0, &x1, overwrite && x0.buffer == original_buffer);
done:
    return status;
}

/* Defers a product by one factor for each channel to its only consumer, which then scales its weights, if that is
 * faster. */
static inlay_status defer_scale(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const uint32_t consumer = build->op->function == FUNCTION_MUL && group->post_count == 0
                                  ? cpu_only_reader(build->compiled, build->op->out[0])
                                  : INLAY_NONE;
    const cpu_family *family = consumer == INLAY_NONE ? NULL : build->compiled->ops[consumer].row->family;

    *out_done = false;
    return family == NULL || family->defer_scale == NULL ? INLAY_OK
                                                         : family->defer_scale(build, group, consumer, out_done);
}

static inlay_status lower_binary(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    uint32_t y = op->out[0], rank = build->ranks[y];
    cpu_place x0, x1, out;
    inlay_status status;
    bool overwrite = cpu_is_last_use(build, op->in[0]) && op->in[0] != op->in[1], done;

    INLAY_CHECK(op->in_count == 2);
    INLAY_TRY(defer_scale(build, group, &done));
    if (done)
        goto done;

    INLAY_TRY(cpu_read(build, op->in[0], &x0));
    INLAY_TRY(cpu_read(build, op->in[1], &x1));
    if (op->function != FUNCTION_PRELU && cpu_has_dims(&x0.layout, rank, build->dims[y]) &&
        cpu_has_dims(&x1.layout, rank, build->dims[y]) && layout_is_dense(&x0.layout) && layout_is_dense(&x1.layout))
        return lower_whole(build, group, x0, x1, overwrite);
    INLAY_TRY(cpu_binary_at(build, op->function, &x0, overwrite, op->in[1], y,
                            group->post_count == 0 ? group->out : INLAY_NONE, &out));
    status = cpu_finish(build, group, 0, &out, true);
done:
    return status;
}

const cpu_family cpu_binary = {
    .kind = CPU_FAMILY_BINARY, .name = "binary", .parse = parse_binary, .lower = lower_binary, .takes_posts = true
};
