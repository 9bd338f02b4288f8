/* Matrix multiplications as steps, in slices of columns. */
#include "onednn/builder.h"
#include "inlay/check.h"

enum { PART_COLUMNS = 64 }; /* of a slice of a product: a multiple of this */
#define PART_FLOPS 4e6      /* least work of a slice */

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
        code = layout_make_plain(dnnl_f32, 2, bias, &out->bias);
    return code;
}

static dnnl_status_t add_part(struct builder *builder, const struct product *product, const struct layouts *layouts,
                              const_dnnl_primitive_desc_t description, const weights_pack *pack, int64_t column)
{
    const uint64_t offset = (uint64_t)column * sizeof(float);
    struct place bias = builder_place(builder, OPERAND_BIAS);
    struct step *step = NULL;
    dnnl_status_t code = builder_add_step(builder, description, true, &step);

    bias.offset = offset;
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_SRC, product->read, product->place);
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_WEIGHTS, pack->layout,
                                   (struct place){ .kind = PLACE_CONSTANT, .data = pack->memory.data });
    if (code == dnnl_success && layouts->bias != NULL)
        code = builder_add_operand(builder, step, DNNL_ARG_BIAS, layouts->bias, bias);
    if (code == dnnl_success)
        code = builder_add_operand(builder, step, DNNL_ARG_DST, layouts->output,
                                   (struct place){ .kind = PLACE_OUTPUT, .offset = offset });
    return code == dnnl_success ? builder_add_scratchpad(builder, step, description) : code;
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
        INLAY_TRY(builder_describe_packed(builder, &op, part, layouts.any_weights, layouts.weights, data, &pack, &alone,
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
    const int64_t count = tensor_count(&builder->output);
    dnnl_status_t code = dnnl_success;

    if (builder->group->values[OPERAND_ADDEND] == INLAY_NONE)
        return code;
    code = layout_make_plain(dnnl_f32, 1, &count, &layout);
    if (code == dnnl_success)
        code = builder_add_reorder(builder, layout, builder_place(builder, OPERAND_ADDEND), layout,
                                   (struct place){ .kind = PLACE_OUTPUT });
    library_layout_destroy(layout);
    return code;
}

inlay_status builder_add_product(struct builder *builder)
{
    const struct tensor *input = &builder->operands[OPERAND_INPUT], *output = &builder->output;
    const bool transposed = builder->group->input_transposed;
    struct product product = { .depth = input->dims[input->rank - (transposed ? 2 : 1)],
                               .columns = output->dims[output->rank - 1],
                               .place = builder_place(builder, OPERAND_INPUT) };
    int64_t dims[2], strides[2], columns;
    inlay_status status = INLAY_OK;
    dnnl_status_t code;
    uint32_t part = 0;

    product.rows = tensor_count(output) / product.columns;
    dims[0] = product.rows;
    dims[1] = product.depth;
    strides[0] = transposed ? 1 : product.depth;
    strides[1] = transposed ? product.rows : 1;
    code = library_layout_create(dnnl_f32, 2, dims, strides, &product.input);
    if (code == dnnl_success)
        code = builder->reduced ? layout_make_plain(dnnl_bf16, 2, dims, &product.read)
                                : library_layout_create(dnnl_f32, 2, dims, strides, &product.read);
    if (code == dnnl_success)
        code = builder_read_as(builder, product.input, product.read, &product.place);
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
