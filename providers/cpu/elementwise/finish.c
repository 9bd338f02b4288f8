/* Steps for functions of a place, and for the functions of a group that its first step has not done. */
#include "cpu/elementwise/elementwise.h"

/* True if one loop may run over all bytes of the layout. Gaps are allowed only as padding of blocks, if the function
 * keeps its zeros. */
static bool is_contiguous(const memory_desc *md, const cpu_eltwise *eltwise)
{
    const cpu_row_fn row = cpu_row_of(eltwise);
    uint64_t padded = 1;
    float zero = 0;

    if (memory_desc_is_dense(md))
        return true;
    for (int d = 0; d < md->ndims; d++)
        padded *= (uint64_t)md->padded_dims[d];
    if (row == NULL || !memory_desc_is_blocked(md) || memory_desc_bytes(md) != padded * sizeof(float))
        return false;
    row(&zero, &zero, 1, eltwise->alpha, eltwise->beta);
    return zero == 0;
}

inlay_status cpu_eltwise_at(cpu_build *build, const cpu_place *place, bool overwrite, const cpu_eltwise *eltwise,
                            uint32_t result, cpu_place *out)
{
    library_description pd = NULL;
    const bool floats = place->md.data_type == LIBRARY_F32;
    library_op desc = { .kind = LIBRARY_ELTWISE, .alg = eltwise->alg, .alpha = eltwise->alpha, .beta = eltwise->beta };
    cpu_place copy, *input = &copy;
    inlay_status status;
    memory_desc plain;
    bool whole;

    copy = *place;
    whole = floats && is_contiguous(&input->md, eltwise);
    if (!whole &&
        (cpu_needs_builtin_loop(eltwise->alg) || (floats && (build->state->alone || cpu_loses_nan(eltwise))))) {
        whole = true;
        memory_desc_plain(&plain, (uint32_t)input->md.ndims, input->md.dims);
        INLAY_TRY(cpu_reorder(build, place, &plain, input));
    }
    if (overwrite && (result == INLAY_NONE || build->compiled->values[result].output == INLAY_NONE))
        *out = *input;
    else if (result != INLAY_NONE)
        INLAY_TRY(cpu_result_place(build, result, &input->md, out));
    else
        INLAY_TRY(cpu_new_place(build, &input->md, out));
    if (whole && cpu_row_is_best(build->state, eltwise, memory_desc_count(&input->md)))
        return cpu_emit_function(build, eltwise, input, out);
    desc.input = input->md;
    INLAY_TRY(cpu_describe(build, &desc, &pd));
    status = cpu_emit(build, pd, (const cpu_operand[]){ { LIBRARY_ARG_SRC, input }, { LIBRARY_ARG_DST, out } }, 2);
done:
    library_destroy(pd);
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

        if (post->kind == CPU_POST_ELTWISE)
            status = cpu_eltwise_at(build, &now, overwrite, &post->eltwise, result, &next);
        else
            status = cpu_binary_at(build, post->alg, &now, overwrite, post->other, group->out, result, &next);
        if (status != INLAY_OK)
            return status;
        now = next;
        overwrite = true;
    }
    return cpu_set_place(build, group->out, &now);
}
