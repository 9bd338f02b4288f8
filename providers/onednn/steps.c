/* The steps of an instance: changes of layout, and kernels with their operands. */
#include "onednn/builder.h"
#include "inlay/check.h"

int64_t tensor_count(const struct tensor *tensor)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < tensor->rank; d++)
        count = tensor->dims[d] > 0 && count <= MOST_ELEMENTS
                    ? count * (tensor->dims[d] <= MOST_ELEMENTS ? tensor->dims[d] : (int64_t)MOST_ELEMENTS + 1)
                : tensor->dims[d] == 0 ? 0
                                       : count;
    return count;
}

dnnl_status_t layout_make_plain(dnnl_data_type_t type, uint32_t rank, const int64_t *dims, library_layout *out)
{
    int64_t strides[LIBRARY_MAX_RANK], step = 1;

    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = step;
        step *= dims[d];
    }
    return library_layout_create(type, rank, dims, strides, out);
}

struct place builder_place(const struct builder *builder, uint32_t operand)
{
    const inlay_compiled *compiled = builder->compiled;

    if (compiled->slots[operand] != INLAY_NONE)
        return (struct place){ .kind = PLACE_INPUT, .index = compiled->slots[operand] };
    return (struct place){ .kind = PLACE_CONSTANT, .data = compiled->constants[operand] };
}

struct place builder_take(struct builder *builder, uint64_t bytes)
{
    const struct place place = { .kind = PLACE_WORKSPACE, .offset = builder->workspace };

    builder->workspace += (bytes + 63) / 64 * 64;
    return place;
}

dnnl_status_t builder_add_step(struct builder *builder, const_dnnl_primitive_desc_t description, bool alone,
                               struct step **out)
{
    dnnl_status_t code;
    int before;

    INLAY_CHECK(builder->instance->step_count < MOST_STEPS);
    *out = &builder->instance->steps[builder->instance->step_count];
    (*out)->alone = alone;
    builder->instance->step_count++;
    /* As for the description: the number of threads is part of the key of the library's cache of primitives. */
    before = threads_set(alone ? 1 : (int)builder->instance->threads);
    code = dnnl_primitive_create(&(*out)->primitive, description);
    (void)threads_set(before);
    return code;
}

dnnl_status_t builder_add_operand(const struct builder *builder, struct step *step, int number,
                                  library_const_layout layout, struct place place)
{
    dnnl_memory_t memory = NULL;
    dnnl_status_t code = dnnl_memory_create(&memory, layout, builder->state->engine, DNNL_MEMORY_NONE);

    if (code != dnnl_success)
        return code;
    INLAY_CHECK(step->count < MOST_OPERANDS);
    step->places[step->count] = place;
    step->args[step->count++] = (dnnl_exec_arg_t){ number, memory };
    return dnnl_success;
}

/* Adds a change of layout by this provider's loops; dnnl_unimplemented: they do not support it. */
static dnnl_status_t add_copy(struct builder *builder, library_const_layout from, struct place source,
                              library_const_layout to, struct place target)
{
    struct step *step = &builder->instance->steps[builder->instance->step_count];

    INLAY_CHECK(builder->instance->step_count < MOST_STEPS);
    step->copy = calloc(1, sizeof *step->copy);
    if (step->copy == NULL)
        return dnnl_out_of_memory;
    if (!copy_prepare(from, to, step->copy)) {
        free(step->copy);
        step->copy = NULL;
        return dnnl_unimplemented;
    }
    step->alone = true; /* no threads of the library */
    step->places[0] = source;
    step->places[1] = target;
    step->count = 2;
    builder->instance->step_count++;
    return dnnl_success;
}

dnnl_status_t builder_add_reorder(struct builder *builder, library_const_layout from, struct place source,
                                  library_const_layout to, struct place target)
{
    dnnl_primitive_desc_t description = NULL;
    dnnl_engine_t engine = builder->state->engine;
    struct step *step;
    dnnl_status_t code = add_copy(builder, from, source, to, target);

    if (code != dnnl_unimplemented)
        return code;
    code = dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine, NULL);

    if (code == dnnl_success)
        code = builder_add_step(builder, description, builder->alone, &step);
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_FROM, from, source);
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_TO, to, target);
    if (description != NULL)
        (void)dnnl_primitive_desc_destroy(description);
    return code;
}

dnnl_status_t builder_read_as(struct builder *builder, library_const_layout plain, library_const_layout wanted,
                              struct place *inout)
{
    const struct place source = *inout;

    if (dnnl_memory_desc_equal(plain, wanted) != 0)
        return dnnl_success;
    *inout = builder_take(builder, dnnl_memory_desc_get_size(wanted));
    return builder_add_reorder(builder, plain, source, wanted, *inout);
}

dnnl_status_t builder_add_scratchpad(struct builder *builder, struct step *step,
                                     const_dnnl_primitive_desc_t description)
{
    library_const_layout layout = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    const uint64_t bytes = layout != NULL ? dnnl_memory_desc_get_size(layout) : 0;

    return bytes == 0 ? dnnl_success
                      : builder_add_operand(builder, step, DNNL_ARG_SCRATCHPAD, layout, builder_take(builder, bytes));
}

static const char *name_of(const_dnnl_primitive_desc_t description)
{
    const char *name = NULL;

    return dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success &&
                   name != NULL
               ? name
               : "";
}

/* Results must not depend on the number of threads. Of the kernels in use, only direct convolutions divide no sum. */
static bool divides_sums(const library_op *op, const char *name)
{
    return op->kind != dnnl_convolution || strncmp(name, "gemm", 4) == 0 || strncmp(name, "x64:gemm", 8) == 0;
}

dnnl_status_t builder_describe(const struct builder *builder, library_op *op, bool *out_alone,
                               dnnl_primitive_desc_t *out)
{
    dnnl_status_t code;

    if (group_fuses_function(builder->state, builder->group)) {
        op->function = builder->group->function.kind;
        op->function_alpha = builder->group->function.alpha;
        op->function_beta = builder->group->function.beta;
    }
    op->adds = builder->group->values[OPERAND_ADDEND] != INLAY_NONE;
    *out_alone = builder->alone;
    code = library_describe(builder->state->engine, op, out);
    if (code == dnnl_success && !builder->alone && divides_sums(op, name_of(*out))) {
        const int before = threads_set(1);

        (void)dnnl_primitive_desc_destroy(*out);
        *out_alone = true;
        code = library_describe(builder->state->engine, op, out);
        (void)threads_set(before);
    }
    if (code == dnnl_success &&
        (strncmp(name_of(*out), "ref", 3) == 0 || strncmp(name_of(*out), "simple:any", 10) == 0)) {
        (void)dnnl_primitive_desc_destroy(*out);
        *out = NULL;
        code = dnnl_unimplemented;
    }
    return code;
}

inlay_status builder_describe_packed(struct builder *builder, library_op *op, uint32_t part, library_const_layout any,
                                     library_const_layout plain, const float *data, const weights_pack **out_pack,
                                     bool *out_alone, dnnl_primitive_desc_t *out)
{
    weights_pack *pack = pack_find(builder->compiled, part);
    dnnl_status_t code = dnnl_unimplemented;
    inlay_status status = INLAY_OK;

    *out_pack = NULL;
    if (pack != NULL) {
        op->weights = pack->layout;
        code = builder_describe(builder, op, out_alone, out);
    }
    if (code != dnnl_success) {
        if (pack != NULL)
            pack_release(builder->compiled, pack);
        op->weights = any;
        if (data != NULL)
            code = builder_describe(builder, op, out_alone, out);
        if (code != dnnl_success)
            return onednn_fail(code, builder->group->name, builder->diag);
        status = pack_make(builder->state, builder->compiled, builder->source, part, plain, data,
                           dnnl_primitive_desc_query_md(*out, dnnl_query_weights_md, 0), &pack, builder->diag);
        if (status != INLAY_OK)
            return status;
    }
    INLAY_CHECK(builder->instance->pack_count < MOST_PARTS);
    builder->instance->packs[builder->instance->pack_count++] = pack;
    *out_pack = pack;
    return INLAY_OK;
}

void layouts_destroy(struct layouts *layouts)
{
    library_layout_destroy(layouts->input);
    library_layout_destroy(layouts->weights);
    library_layout_destroy(layouts->bias);
    library_layout_destroy(layouts->output);
    library_layout_destroy(layouts->any_input);
    library_layout_destroy(layouts->any_weights);
    library_layout_destroy(layouts->any_output);
}
