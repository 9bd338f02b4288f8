/* Builds an instance of a group for concrete shapes: the library's kernel, and the changes of layout that it needs. */
#include "onednn/provider.h"
#include "inlay/check.h"
#include <stdio.h>

enum {
    MOST_ELEMENTS = INT32_MAX, /* of a tensor */
    PART_COLUMNS = 64          /* of a slice of a product: a multiple of this */
};
#define PART_FLOPS 4e6   /* least work of a slice */
#define SHARED_FLOPS 4e5 /* with less work, one thread is faster */

/* A tensor at concrete sizes. */
struct tensor {
    const int64_t *dims;
    uint32_t rank;
};

/* State of instance_build(). */
struct builder {
    const onednn_state *state;
    inlay_compiled *compiled;
    const struct group *group;
    const pack_source *source;
    inlay_instance *instance;
    struct tensor operands[OPERAND_COUNT], output;
    uint64_t workspace; /* bytes */
    bool reduced;
    bool alone; /* the work is too short for several threads */
    inlay_diag *diag;
};

static int64_t count_of(const struct tensor *tensor)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < tensor->rank; d++)
        count = tensor->dims[d] > 0 && count <= MOST_ELEMENTS
                    ? count * (tensor->dims[d] <= MOST_ELEMENTS ? tensor->dims[d] : (int64_t)MOST_ELEMENTS + 1)
                : tensor->dims[d] == 0 ? 0
                                       : count;
    return count;
}

/* Describes a row-major tensor. */
static dnnl_status_t make_plain(dnnl_data_type_t type, uint32_t rank, const int64_t *dims, library_layout *out)
{
    int64_t strides[LIBRARY_MAX_RANK], step = 1;

    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = step;
        step *= dims[d];
    }
    return library_layout_create(type, rank, dims, strides, out);
}

static struct place place_of(const struct builder *builder, uint32_t operand)
{
    const inlay_compiled *compiled = builder->compiled;

    if (compiled->slots[operand] != INLAY_NONE)
        return (struct place){ .kind = PLACE_INPUT, .index = compiled->slots[operand] };
    return (struct place){ .kind = PLACE_CONSTANT, .data = compiled->constants[operand] };
}

static struct place take_workspace(struct builder *builder, uint64_t bytes)
{
    const struct place place = { .kind = PLACE_WORKSPACE, .offset = builder->workspace };

    builder->workspace += (bytes + 63) / 64 * 64;
    return place;
}

/* ------------------------------------------------------------------ steps */

/* Creates the primitive of a description as the next step. */
static dnnl_status_t add_step(struct builder *builder, const_dnnl_primitive_desc_t description, bool alone,
                              struct step **out)
{
    INLAY_CHECK(builder->instance->step_count < MOST_STEPS);
    *out = &builder->instance->steps[builder->instance->step_count];
    (*out)->alone = alone;
    builder->instance->step_count++;
    return dnnl_primitive_create(&(*out)->primitive, description);
}

static dnnl_status_t add_operand(const struct builder *builder, struct step *step, int number,
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

static dnnl_status_t add_reorder(struct builder *builder, library_const_layout from, struct place source,
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
        code = add_step(builder, description, builder->alone, &step);
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_FROM, from, source);
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_TO, to, target);
    if (description != NULL)
        (void)dnnl_primitive_desc_destroy(description);
    return code;
}

/* Changes *place to one that has the layout `wanted`, by a reorder if necessary. */
static dnnl_status_t read_as(struct builder *builder, library_const_layout plain, library_const_layout wanted,
                             struct place *inout)
{
    const struct place source = *inout;

    if (dnnl_memory_desc_equal(plain, wanted) != 0)
        return dnnl_success;
    *inout = take_workspace(builder, dnnl_memory_desc_get_size(wanted));
    return add_reorder(builder, plain, source, wanted, *inout);
}

/* Adds the operand scratchpad, if the kernel needs one. */
static dnnl_status_t add_scratchpad(struct builder *builder, struct step *step, const_dnnl_primitive_desc_t description)
{
    library_const_layout layout = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    const uint64_t bytes = layout != NULL ? dnnl_memory_desc_get_size(layout) : 0;

    return bytes == 0 ? dnnl_success
                      : add_operand(builder, step, DNNL_ARG_SCRATCHPAD, layout, take_workspace(builder, bytes));
}

/* ------------------------------------------------------------------ kernels */

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

/* Describes the library's kernel; dnnl_unimplemented: it has a reference loop only. */
static dnnl_status_t describe(const struct builder *builder, library_op *op, bool *out_alone,
                              dnnl_primitive_desc_t *out)
{
    int before = threads_set(builder->alone ? 1 : (int)builder->instance->threads);
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
        (void)dnnl_primitive_desc_destroy(*out);
        (void)threads_set(1);
        *out_alone = true;
        code = library_describe(builder->state->engine, op, out);
    }
    (void)threads_set(before);
    if (code == dnnl_success &&
        (strncmp(name_of(*out), "ref", 3) == 0 || strncmp(name_of(*out), "simple:any", 10) == 0)) {
        (void)dnnl_primitive_desc_destroy(*out);
        *out = NULL;
        code = dnnl_unimplemented;
    }
    return code;
}

/* Describes a kernel with packed weights: one that reads the existing pack of the slice, or else the preferred one, for
 * which the weights are packed. `any` and `plain` are layouts of the weights. */
static inlay_status describe_packed(struct builder *builder, library_op *op, uint32_t part, library_const_layout any,
                                    library_const_layout plain, const float *data, const weights_pack **out_pack,
                                    bool *out_alone, dnnl_primitive_desc_t *out)
{
    const weights_pack *pack = pack_find(builder->compiled, part);
    dnnl_status_t code = dnnl_unimplemented;

    *out_pack = pack;
    if (pack != NULL) {
        op->weights = pack->layout;
        code = describe(builder, op, out_alone, out);
    }
    if (code == dnnl_success)
        return INLAY_OK;
    op->weights = any;
    if (data != NULL)
        code = describe(builder, op, out_alone, out);
    if (code != dnnl_success)
        return onednn_fail(code, builder->group->name, builder->diag);
    return pack_make(builder->state, builder->compiled, builder->source, part, plain, data,
                     dnnl_primitive_desc_query_md(*out, dnnl_query_weights_md, 0), out_pack, builder->diag);
}

/* ------------------------------------------------------------------ windows */

/* The weights of a convolution in the library's order of axes: a view of ONNX's. Conv has [O, I/g, ..], ConvTranspose
 * [I, O/g, ..]; the library takes [g, O/g, I/g, ..]. Returns the number of axes. */
static uint32_t weights_view(const struct builder *builder, int64_t *dims, int64_t *strides)
{
    const struct tensor *weights = &builder->operands[OPERAND_WEIGHTS];
    const int64_t groups = builder->group->channel_groups, first = weights->dims[0] / groups, second = weights->dims[1];
    const bool transposed = builder->group->kind == GROUP_DECONV;
    int64_t taps = 1;
    uint32_t axis = 0;

    for (uint32_t d = 2; d < weights->rank; d++)
        taps *= weights->dims[d];
    if (groups > 1) {
        dims[axis] = groups;
        strides[axis++] = first * second * taps;
    }
    dims[axis] = transposed ? second : first;
    strides[axis++] = transposed ? taps : second * taps;
    dims[axis] = transposed ? first : second;
    strides[axis++] = transposed ? second * taps : taps;
    for (uint32_t d = 2; d < weights->rank; d++) {
        taps /= weights->dims[d];
        dims[axis] = weights->dims[d];
        strides[axis++] = taps;
    }
    return axis;
}

/* Layouts of a group: those of the tensors as they are, and those that describe() gets. */
struct layouts {
    library_layout input, weights, bias, output;
    library_layout any_input, any_weights, any_output;
};

static void layouts_destroy(struct layouts *layouts)
{
    library_layout_destroy(layouts->input);
    library_layout_destroy(layouts->weights);
    library_layout_destroy(layouts->bias);
    library_layout_destroy(layouts->output);
    library_layout_destroy(layouts->any_input);
    library_layout_destroy(layouts->any_weights);
    library_layout_destroy(layouts->any_output);
}

static dnnl_status_t window_layouts(const struct builder *builder, struct layouts *out)
{
    const struct tensor *input = &builder->operands[OPERAND_INPUT], *output = &builder->output;
    const dnnl_data_type_t type = builder->reduced ? dnnl_bf16 : dnnl_f32;
    int64_t dims[LIBRARY_MAX_RANK], strides[LIBRARY_MAX_RANK];
    const uint32_t rank = weights_view(builder, dims, strides);
    dnnl_status_t code = make_plain(dnnl_f32, input->rank, input->dims, &out->input);

    if (code == dnnl_success)
        code = make_plain(dnnl_f32, output->rank, output->dims, &out->output);
    if (code == dnnl_success)
        code = library_layout_create(dnnl_f32, rank, dims, strides, &out->weights);
    if (code == dnnl_success)
        code = library_layout_create(type, input->rank, input->dims, NULL, &out->any_input);
    if (code == dnnl_success)
        code = library_layout_create(dnnl_f32, output->rank, output->dims, NULL, &out->any_output);
    if (code == dnnl_success)
        code = library_layout_create(type, rank, dims, NULL, &out->any_weights);
    if (code == dnnl_success && builder->group->values[OPERAND_BIAS] != INLAY_NONE)
        code = make_plain(dnnl_f32, 1, &output->dims[1], &out->bias);
    return code;
}

/* Adds the steps of a described window. pack NULL: the weights are computed. */
static dnnl_status_t add_window(struct builder *builder, const struct layouts *layouts,
                                const_dnnl_primitive_desc_t description, const weights_pack *pack, bool alone)
{
    library_const_layout x = dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0),
                         w = dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0),
                         y = dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    struct place input = place_of(builder, OPERAND_INPUT), weights = { 0 }, output = { .kind = PLACE_OUTPUT };
    const bool direct = dnnl_memory_desc_equal(layouts->output, y) != 0;
    dnnl_status_t code = read_as(builder, layouts->input, x, &input);
    struct step *step = NULL;

    if (pack != NULL) {
        weights = (struct place){ .kind = PLACE_CONSTANT, .data = pack->memory.data };
    } else if (code == dnnl_success) {
        weights = place_of(builder, OPERAND_WEIGHTS);
        code = read_as(builder, layouts->weights, w, &weights);
    }
    if (!direct)
        output = take_workspace(builder, dnnl_memory_desc_get_size(y));
    if (code == dnnl_success && builder->group->values[OPERAND_ADDEND] != INLAY_NONE)
        code = add_reorder(builder, layouts->output, place_of(builder, OPERAND_ADDEND), y, output);
    if (code == dnnl_success)
        code = add_step(builder, description, alone, &step);
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_SRC, x, input);
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_WEIGHTS, w, weights);
    if (code == dnnl_success && layouts->bias != NULL)
        code = add_operand(builder, step, DNNL_ARG_BIAS, layouts->bias, place_of(builder, OPERAND_BIAS));
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_DST, y, output);
    if (code == dnnl_success)
        code = add_scratchpad(builder, step, description);
    if (code == dnnl_success && !direct)
        code = add_reorder(builder, y, output, layouts->output, (struct place){ .kind = PLACE_OUTPUT });
    return code;
}

static inlay_status build_window(struct builder *builder)
{
    const struct group *group = builder->group;
    library_op op = { .kind = group->kind == GROUP_CONV ? dnnl_convolution : dnnl_deconvolution };
    struct layouts layouts = { .input = NULL };
    dnnl_primitive_desc_t description = NULL;
    const weights_pack *pack = NULL;
    inlay_status status = INLAY_OK;
    dnnl_status_t code = window_layouts(builder, &layouts);
    bool alone = false;

    op.input = layouts.any_input;
    op.weights = layouts.any_weights;
    op.bias = layouts.bias;
    op.output = layouts.any_output;
    group_pads(group, builder->operands[OPERAND_INPUT].dims + 2, builder->output.dims + 2, op.begins, op.ends);
    for (uint32_t i = 0; i < group->spatial; i++) {
        op.strides[i] = group->strides[i];
        op.dilations[i] = group->dilations[i] - 1;
    }
    if (code == dnnl_success && group->constant[OPERAND_WEIGHTS])
        INLAY_TRY(describe_packed(builder, &op, 0, layouts.any_weights, layouts.weights,
                                  builder->compiled->constants[OPERAND_WEIGHTS], &pack, &alone, &description));
    else if (code == dnnl_success)
        code = describe(builder, &op, &alone, &description);
    if (code == dnnl_success)
        code = add_window(builder, &layouts, description, pack, alone);
    if (code != dnnl_success)
        status = onednn_fail(code, group->name, builder->diag);
done:
    if (description != NULL)
        (void)dnnl_primitive_desc_destroy(description);
    layouts_destroy(&layouts);
    return status;
}

/* ------------------------------------------------------------------ matrix multiplications */

/* A product of matrices [rows, depth] and [depth, columns] with packed weights, in slices of columns. */
struct product {
    int64_t rows, depth, columns;
    library_layout input, read; /* of the input as it is, and as the kernels read it */
    struct place place;         /* of the input with layout `read` */
};

/* The number of columns of a slice. It depends on sizes alone, so that results do not depend on threads. */
static int64_t columns_of_part(const struct product *product)
{
    const double flops = 2.0 * (double)product->rows * (double)product->depth * (double)product->columns;
    int64_t parts = flops / PART_FLOPS < MOST_PARTS ? (int64_t)(flops / PART_FLOPS) : MOST_PARTS, columns;

    parts = parts < 1 ? 1 : parts;
    columns = (product->columns + parts - 1) / parts;
    return (columns + PART_COLUMNS - 1) / PART_COLUMNS * PART_COLUMNS;
}

static dnnl_status_t part_layouts(const struct builder *builder, const struct product *product, int64_t columns,
                                  struct layouts *out)
{
    const bool transposed = builder->group->weights_transposed;
    const dnnl_data_type_t type = builder->reduced ? dnnl_bf16 : dnnl_f32;
    const int64_t weights[] = { product->depth, columns }, output[] = { product->rows, columns },
                  bias[] = { 1, columns };
    const int64_t weights_strides[] = { transposed ? 1 : product->columns, transposed ? product->depth : 1 };
    const int64_t output_strides[] = { product->columns, 1 };
    dnnl_status_t code = library_layout_create(dnnl_f32, 2, weights, weights_strides, &out->weights);

    if (code == dnnl_success)
        code = library_layout_create(type, 2, weights, NULL, &out->any_weights);
    if (code == dnnl_success)
        code = library_layout_create(dnnl_f32, 2, output, output_strides, &out->output);
    if (code == dnnl_success && builder->group->values[OPERAND_BIAS] != INLAY_NONE)
        code = make_plain(dnnl_f32, 2, bias, &out->bias);
    return code;
}

static dnnl_status_t add_part(struct builder *builder, const struct product *product, const struct layouts *layouts,
                              const_dnnl_primitive_desc_t description, const weights_pack *pack, int64_t column)
{
    const uint64_t offset = (uint64_t)column * sizeof(float);
    struct place bias = place_of(builder, OPERAND_BIAS);
    struct step *step = NULL;
    dnnl_status_t code = add_step(builder, description, true, &step);

    bias.offset = offset;
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_SRC, product->read, product->place);
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_WEIGHTS, pack->layout,
                           (struct place){ .kind = PLACE_CONSTANT, .data = pack->memory.data });
    if (code == dnnl_success && layouts->bias != NULL)
        code = add_operand(builder, step, DNNL_ARG_BIAS, layouts->bias, bias);
    if (code == dnnl_success)
        code = add_operand(builder, step, DNNL_ARG_DST, layouts->output,
                           (struct place){ .kind = PLACE_OUTPUT, .offset = offset });
    return code == dnnl_success ? add_scratchpad(builder, step, description) : code;
}

static inlay_status build_part(struct builder *builder, const struct product *product, uint32_t part, int64_t column,
                               int64_t columns)
{
    const float *data = builder->compiled->constants[OPERAND_WEIGHTS];
    library_op op = { .kind = dnnl_matmul, .input = product->read };
    struct layouts layouts = { .input = NULL };
    dnnl_primitive_desc_t description = NULL;
    const weights_pack *pack = NULL;
    inlay_status status = INLAY_OK;
    dnnl_status_t code = part_layouts(builder, product, columns, &layouts);
    bool alone;

    if (data != NULL)
        data += column * (builder->group->weights_transposed ? product->depth : 1);
    op.bias = layouts.bias;
    op.output = layouts.output;
    if (code == dnnl_success)
        INLAY_TRY(describe_packed(builder, &op, part, layouts.any_weights, layouts.weights, data, &pack, &alone,
                                  &description));
    if (code == dnnl_success)
        code = add_part(builder, product, &layouts, description, pack, column);
    if (code != dnnl_success)
        status = onednn_fail(code, builder->group->name, builder->diag);
done:
    if (description != NULL)
        (void)dnnl_primitive_desc_destroy(description);
    layouts_destroy(&layouts);
    return status;
}

/* The addend is copied to the output, to which the kernels add. */
static dnnl_status_t add_addend(struct builder *builder)
{
    library_layout layout = NULL;
    const int64_t count = count_of(&builder->output);
    dnnl_status_t code = dnnl_success;

    if (builder->group->values[OPERAND_ADDEND] == INLAY_NONE)
        return code;
    code = make_plain(dnnl_f32, 1, &count, &layout);
    if (code == dnnl_success)
        code = add_reorder(builder, layout, place_of(builder, OPERAND_ADDEND), layout,
                           (struct place){ .kind = PLACE_OUTPUT });
    library_layout_destroy(layout);
    return code;
}

static inlay_status build_product(struct builder *builder)
{
    const struct tensor *input = &builder->operands[OPERAND_INPUT], *output = &builder->output;
    const bool transposed = builder->group->input_transposed;
    struct product product = { .depth = input->dims[input->rank - (transposed ? 2 : 1)],
                               .columns = output->dims[output->rank - 1],
                               .place = place_of(builder, OPERAND_INPUT) };
    int64_t dims[2], strides[2], columns;
    inlay_status status = INLAY_OK;
    dnnl_status_t code;
    uint32_t part = 0;

    product.rows = count_of(output) / product.columns;
    dims[0] = product.rows;
    dims[1] = product.depth;
    strides[0] = transposed ? 1 : product.depth;
    strides[1] = transposed ? product.rows : 1;
    code = library_layout_create(dnnl_f32, 2, dims, strides, &product.input);
    if (code == dnnl_success)
        code = builder->reduced ? make_plain(dnnl_bf16, 2, dims, &product.read)
                                : library_layout_create(dnnl_f32, 2, dims, strides, &product.read);
    if (code == dnnl_success)
        code = read_as(builder, product.input, product.read, &product.place);
    if (code == dnnl_success)
        code = add_addend(builder);
    if (code != dnnl_success) {
        status = onednn_fail(code, builder->group->name, builder->diag);
        goto done;
    }
    columns = columns_of_part(&product);
    builder->instance->parts_begin = builder->instance->step_count;
    for (int64_t column = 0; column < product.columns; column += columns)
        INLAY_TRY(build_part(builder, &product, part++, column,
                             columns < product.columns - column ? columns : product.columns - column));
    builder->instance->parts_end = builder->instance->step_count;
done:
    library_layout_destroy(product.input);
    library_layout_destroy(product.read);
    return status;
}

/* ------------------------------------------------------------------ instances */

static bool read_tensor(const inlay_value_state *values, uint32_t stride, uint32_t value, struct tensor *out)
{
    const inlay_value_state *state = INLAY_AT(inlay_value_state, values, stride, value);

    if (state->rank == INLAY_RANK_UNKNOWN || state->rank > MOST_RANK)
        return false;
    *out = (struct tensor){ state->dims, state->rank };
    for (uint32_t d = 0; d < state->rank; d++)
        if (state->dims[d] < 0)
            return false;
    return count_of(out) <= MOST_ELEMENTS;
}

/* Reads the sizes of all operands; false: the library cannot compute these. */
static bool read_sizes(struct builder *builder, const inlay_value_state *values, uint32_t stride)
{
    const struct group *group = builder->group;

    if (!read_tensor(values, stride, group->output, &builder->output))
        return false;
    for (uint32_t i = 0; i < OPERAND_COUNT; i++)
        if (group->values[i] != INLAY_NONE && !read_tensor(values, stride, group->values[i], &builder->operands[i]))
            return false;
    builder->instance->output_count = count_of(&builder->output);
    return builder->instance->output_count == 0 ||
           (count_of(&builder->operands[OPERAND_INPUT]) > 0 &&
            (group->values[OPERAND_WEIGHTS] == INLAY_NONE || count_of(&builder->operands[OPERAND_WEIGHTS]) > 0) &&
            (group->values[OPERAND_ADDEND] == INLAY_NONE ||
             (builder->operands[OPERAND_ADDEND].rank == builder->output.rank &&
              memcmp(builder->operands[OPERAND_ADDEND].dims, builder->output.dims,
                     builder->output.rank * sizeof(int64_t)) == 0)));
}

static double flops_of(const struct builder *builder)
{
    const struct group *group = builder->group;
    const struct tensor *input = &builder->operands[OPERAND_INPUT];
    double flops = 2.0 * (double)count_of(group->kind == GROUP_DECONV ? input : &builder->output);

    if (group->kind == GROUP_PRODUCT)
        return flops * (double)input->dims[input->rank - (group->input_transposed ? 2 : 1)];
    for (uint32_t i = 0; i < group->spatial; i++)
        flops *= (double)group->kernel[i];
    return flops * (double)builder->operands[OPERAND_WEIGHTS].dims[1];
}

static inlay_status build(struct builder *builder)
{
    inlay_instance *instance = builder->instance;
    inlay_status status;

    switch (builder->group->kind) {
    case GROUP_CONV:
    case GROUP_DECONV:
        status = build_window(builder);
        break;
    default:
        status = build_product(builder);
        break;
    }
    for (uint32_t i = 0; status == INLAY_OK && (i == 0 || i < instance->parts_end - instance->parts_begin); i++)
        if (dnnl_stream_create(&instance->streams[i], builder->state->engine, dnnl_stream_default_flags) !=
            dnnl_success)
            status = inlay_fail(builder->diag, INLAY_OUT_OF_MEMORY, "no memory for a stream of oneDNN");
    return status;
}

inlay_status instance_build(const onednn_state *state, inlay_compiled *compiled, const pack_source *source,
                            const inlay_value_state *values, uint32_t stride, uint32_t max_threads,
                            uint64_t *out_workspace_bytes, inlay_instance **out, inlay_diag *diag)
{
    struct builder builder = { .state = state,
                               .compiled = compiled,
                               .group = &compiled->group,
                               .source = source,
                               .instance = calloc(1, sizeof *builder.instance),
                               .reduced = group_is_reduced(state, &compiled->group),
                               .diag = diag };
    inlay_status status = INLAY_OK;

    *out = NULL;
    if (builder.instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to prepare node '%s'", compiled->group.name);
    builder.instance->threads = max_threads > 0 ? max_threads : 1;
    if (!group_fuses_function(state, &compiled->group))
        builder.instance->function = compiled->group.function;
    if (!read_sizes(&builder, values, stride)) {
        status =
            inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': oneDNN does not compute these sizes", compiled->group.name);
        goto done;
    }
    if (builder.instance->output_count > 0) {
        builder.alone = flops_of(&builder) < SHARED_FLOPS || builder.instance->threads == 1;
        INLAY_TRY(build(&builder));
    }
    *out_workspace_bytes = builder.workspace;
    *out = builder.instance;
    builder.instance = NULL;
done:
    instance_destroy(builder.instance);
    return status;
}

void instance_destroy(inlay_instance *instance)
{
    if (instance == NULL)
        return;
    for (uint32_t s = 0; s < instance->step_count; s++) {
        for (uint32_t i = 0; i < instance->steps[s].count; i++)
            if (instance->steps[s].args[i].memory != NULL)
                (void)dnnl_memory_destroy(instance->steps[s].args[i].memory);
        if (instance->steps[s].primitive != NULL)
            (void)dnnl_primitive_destroy(instance->steps[s].primitive);
        if (instance->steps[s].copy != NULL)
            free(instance->steps[s].copy->tables);
        free(instance->steps[s].copy);
    }
    for (uint32_t i = 0; i < MOST_PARTS; i++)
        if (instance->streams[i] != NULL)
            (void)dnnl_stream_destroy(instance->streams[i]);
    free(instance);
}

inlay_status onednn_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    return instance_build(state, compiled, NULL, request->values, request->value_stride, request->max_threads,
                          &request->workspace_bytes, out, diag);
}

void onednn_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    instance_destroy(instance);
}
