/* Split-1..18, and Slice-1..13 with positive steps. The parts are views of the whole tensor, with gaps between rows.
 * GEMMs with constant matrices and attention read them directly; other ops read a copy (cpu_read). */
#include "cpu/region/build.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "cpu/weights/read.h"

static bool parse_split(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    if (!cpu_known_rank(kit_input(node, 0), 1, 6, "input 0", why))
        return false;
    for (uint32_t i = 0; i < node->info->output_count; i++)
        if (kit_output(node, i) == NULL)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "name all outputs", "output %u is omitted", i);
    if (!cpu_axis(kit_attr_int(node->info, "axis", 0), kit_input(node, 0)->rank, &op->axis))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the axis is outside the tensor");
    return true;
}

/* Reads starts, axes or steps: attribute `name` in version 1, which has no steps, input `input` since version 10. */
static bool read_list(const kit_node *node, const char *name, uint32_t input, int64_t *out, uint32_t *out_count,
                      bool *out_there)
{
    *out_there = true;
    if (kit_since_version(node) < 10) {
        const int64_t *list = kit_attr_ints(node->info, name, out_count);

        *out_there = list != NULL;
        if (list == NULL || *out_count > CPU_MAX_RANK)
            return list == NULL;
        memcpy(out, list, *out_count * sizeof *out);
        return true;
    }
    *out_there = kit_input(node, input) != NULL;
    if (!*out_there)
        return true;
    if (kit_input(node, input)->data != NULL && kit_input(node, input)->dtype == INLAY_INT32) {
        const char *list = kit_input(node, input)->data; /* not aligned */

        *out_count = (uint32_t)(kit_input(node, input)->data_bytes / sizeof(int32_t));
        for (uint32_t i = 0; i < *out_count && i < CPU_MAX_RANK; i++) {
            int32_t element;

            memcpy(&element, list + i * sizeof element, sizeof element);
            out[i] = element;
        }
        return *out_count <= CPU_MAX_RANK;
    }
    return cpu_known_ints(kit_input(node, input), out, CPU_MAX_RANK, out_count);
}

static bool parse_slice(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    int64_t starts[CPU_MAX_RANK], axes[CPU_MAX_RANK], steps[CPU_MAX_RANK];
    uint32_t count = 0, axis_count = 0, step_count = 0;
    bool has_starts, has_axes, has_steps = false;

    if (!cpu_known_rank(kit_input(node, 0), 1, 6, "input 0", why))
        return false;
    if (!read_list(node, "starts", 1, starts, &count, &has_starts) || !has_starts ||
        !read_list(node, "axes", 3, axes, &axis_count, &has_axes) || (has_axes && axis_count != count) ||
        (kit_since_version(node) >= 10 && !read_list(node, "", 4, steps, &step_count, &has_steps)) ||
        (has_steps && step_count != count) || count > kit_input(node, 0)->rank)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "make starts, axes and steps constants",
                          "starts, axes or steps are not known");
    for (uint32_t d = 0; d < CPU_MAX_RANK; d++)
        op->slice.steps[d] = 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = i, step = has_steps ? steps[i] : 1;

        if (has_axes && !cpu_axis(axes[i], kit_input(node, 0)->rank, &axis))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "an axis is outside the tensor");
        if (step < 1)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "the step %lld is not positive", (long long)step);
        op->slice.starts[axis] = starts[i];
        op->slice.steps[axis] = step;
    }
    return true;
}

/* Sets the place of value `part`: a view of the whole from element `start` on. */
static inlay_status set_part(cpu_build *build, uint32_t part, const cpu_place *whole, int64_t start,
                             const int64_t *strides)
{
    cpu_place output = *whole;

    INLAY_CHECK(start >= 0);
    layout_strides(&output.layout, build->ranks[part], build->dims[part], strides);
    output.layout.type = whole->layout.type;
    output.offset += (uint64_t)start * cpu_type_bytes(whole->layout.type);
    return cpu_set_place(build, part, &output);
}

static inlay_status lower_split(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const int64_t *strides;
    int64_t at = 0;
    cpu_place whole;
    inlay_status status;

    (void)group;
    if (cpu_count(build, op->in[0]) == 0)
        return INLAY_OK;
    INLAY_TRY(cpu_read_strided(build, op->in[0], &whole));
    strides = whole.layout.strides;
    for (uint32_t i = 0; i < op->out_count; i++) {
        if (cpu_count(build, op->out[i]) > 0)
            INLAY_TRY(set_part(build, op->out[i], &whole, at * strides[op->axis], strides));
        at += build->dims[op->out[i]][op->axis];
    }
done:
    return status;
}

static inlay_status lower_slice(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    int64_t strides[CPU_MAX_RANK], start = 0;
    cpu_place whole;
    inlay_status status;

    INLAY_TRY(cpu_read_strided(build, op->in[0], &whole));
    for (uint32_t d = 0; d < build->ranks[group->out]; d++) {
        int64_t size = build->dims[op->in[0]][d],
                from = op->slice.starts[d] < 0 ? op->slice.starts[d] + size : op->slice.starts[d];

        from = from < 0 ? 0 : from > size ? size : from;
        start += from * whole.layout.strides[d];
        strides[d] = whole.layout.strides[d];
        if (build->dims[group->out][d] > 1) /* for one element, the step may be so large that the product overflows */
            strides[d] *= op->slice.steps[d];
    }
    status = set_part(build, group->out, &whole, start, strides);
done:
    return status;
}

const cpu_family cpu_split = { .kind = CPU_FAMILY_SPLIT, .name = "split", .parse = parse_split, .lower = lower_split };
const cpu_family cpu_slice = { .kind = CPU_FAMILY_SLICE, .name = "slice", .parse = parse_slice, .lower = lower_slice };
