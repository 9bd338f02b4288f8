/* Steps for functions of a place, and for the functions of a group that its first step has not done. */
#include "cpu/elementwise/elementwise.h"

inlay_status cpu_unary_at(cpu_build *build, const cpu_place *place, bool overwrite, const cpu_unary *unary,
                          uint32_t result, cpu_place *out)
{
    cpu_place input = *place;
    inlay_status status = INLAY_OK;
    tensor_layout plain;

    if (place->layout.type != ELEMENT_FLOAT)
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': there are no loops for functions of integers",
                          build->op->name);
    if (!layout_is_dense(&input.layout)) {
        layout_plain(&plain, (uint32_t)input.layout.rank, input.layout.dims);
        INLAY_TRY(cpu_reorder(build, place, &plain, &input));
    }
    if (overwrite && (result == INLAY_NONE || build->compiled->values[result].output == INLAY_NONE))
        *out = input;
    else if (result != INLAY_NONE)
        INLAY_TRY(cpu_result_place(build, result, &input.layout, out));
    else
        INLAY_TRY(cpu_new_place(build, &input.layout, out));
    status = cpu_emit_function(build, unary, &input, out);
done:
    return status;
}

inlay_status cpu_finish(cpu_build *build, const cpu_group *group, uint32_t first, const cpu_place *made, bool overwrite)
{
    cpu_place now = *made;

    INLAY_CHECK(first <= group->post_count);
    for (uint32_t post_index = first; post_index < group->post_count; post_index++) {
        const cpu_post *post = &group->posts[post_index];
        uint32_t result = post_index + 1 == group->post_count ? group->out : INLAY_NONE;
        cpu_place next;
        inlay_status status;

        if (post->kind == CPU_POST_UNARY)
            status = cpu_unary_at(build, &now, overwrite, &post->unary, result, &next);
        else
            status = cpu_binary_at(build, post->function, &now, overwrite, post->other, group->out, result, &next);
        if (status != INLAY_OK)
            return status;
        now = next;
        overwrite = true;
    }
    return cpu_set_place(build, group->out, &now);
}
