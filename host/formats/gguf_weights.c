/* gguf_weights.c - the types of weights, and products with them. Blocks of a quantized type become codes of 2, 4 or 8
 * bits with a scale, and a zero point if the type has one, for each group of elements (kit/blocks.h): when they are
 * packed, if the host keeps blocks, or here. */
#include "formats/gguf.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <stdio.h>
#include <string.h>

enum { LONG_NAMES = 4 * GGUF_NAME };

/* Types without blocks. */
static const kit_block_type plain_types[] = {
    { .id = 0, .name = "F32", .elements = 1, .bytes = 4, .group = 1 },
    { .id = 1, .name = "F16", .elements = 1, .bytes = 2, .group = 1 },
    { .id = 30, .name = "BF16", .elements = 1, .bytes = 2, .group = 1 },
};

const kit_block_type *gguf_type_of(const struct gguf_tensor *tensor)
{
    for (size_t i = 0; i < sizeof plain_types / sizeof *plain_types; i++)
        if (plain_types[i].id == tensor->type)
            return &plain_types[i];
    return kit_block_type_of(tensor->type);
}

/* Of a type without blocks. */
static inlay_dtype dtype_of(const kit_block_type *type)
{
    return type->id == 0 ? INLAY_FLOAT : type->id == 1 ? INLAY_FLOAT16 : INLAY_BFLOAT16;
}

/* The rows of a matrix, or of all matrices of a stack. */
static int64_t rows_of(const struct gguf_tensor *tensor)
{
    return tensor->dims[1] * (tensor->rank == 3 ? tensor->dims[2] : 1);
}

/* The codes, scales and zero points, in memory of the model. */
struct codes {
    const char *location; /* of the memory */
    uint8_t *packed;      /* [rows, columns * bits / 8] */
    float *scales;        /* [rows, columns / group] */
    float *zeros;         /* like scales; NULL: none */
    size_t bytes, groups;
};

/* How the weights of a product are written. */
struct weights {
    const char *name;
    kit_blocks coding;
    bool zeros, joined; /* joined: a stack of matrices, with the codes of a row in one axis */
};

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static inlay_status read_codes(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t first, int64_t count,
                               const kit_blocks *coding, bool zeros, struct codes *out, inlay_diag *diag)
{
    const kit_block_type *type = coding->type;
    const int64_t row = tensor->dims[0] / type->elements;
    const size_t blocks = (size_t)(row * count);

    *out = (struct codes){ .bytes = blocks * (size_t)(type->elements * coding->bits / 8),
                           .groups = blocks * (size_t)(type->elements / coding->group) };
    out->packed =
        gguf->file->alloc(gguf->file->alloc_ctx,
                          aligned(out->bytes) + (zeros ? 2 : 1) * aligned(out->groups * sizeof(float)), &out->location);
    if (out->packed == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for the weights of '%s'", tensor->name);
    out->scales = (float *)(void *)(out->packed + aligned(out->bytes));
    out->zeros = zeros ? out->scales + aligned(out->groups * sizeof(float)) / sizeof(float) : NULL;
    kit_blocks_read(coding, tensor->part->bytes + tensor->offset + (size_t)(row * first * type->bytes), (int64_t)blocks,
                    out->packed, out->scales, out->zeros);
    return INLAY_OK;
}

static void write_part(struct wire *out, const char *name, inlay_dtype dtype, const int64_t *dims, uint32_t rank,
                       const struct codes *codes, const void *part, size_t bytes)
{
    const wire_mark mark = onnx_tensor_begin(out, name, dtype, dims, rank);

    onnx_external(out, codes->location, (uint64_t)((const uint8_t *)part - codes->packed), bytes);
    wire_end(out, mark);
}

/* Initializers NAME.codes, NAME.scales and perhaps NAME.zeros. group_dims: the shape of the latter two. */
static void write_codes(struct wire *out, const char *name, const int64_t *dims, uint32_t rank,
                        const int64_t *group_dims, uint32_t group_rank, const struct codes *codes)
{
    char part[LONG_NAMES];

    (void)snprintf(part, sizeof part, "%s.codes", name);
    write_part(out, part, INLAY_UINT8, dims, rank, codes, codes->packed, codes->bytes);
    (void)snprintf(part, sizeof part, "%s.scales", name);
    write_part(out, part, INLAY_FLOAT, group_dims, group_rank, codes, codes->scales, codes->groups * sizeof(float));
    (void)snprintf(part, sizeof part, "%s.zeros", name);
    if (codes->zeros != NULL)
        write_part(out, part, INLAY_FLOAT, group_dims, group_rank, codes, codes->zeros, codes->groups * sizeof(float));
}

/* Rows of a tensor without blocks, from row `first` on. */
static void write_plain(const struct gguf_tensor *tensor, const char *name, int64_t first, const int64_t *dims,
                        uint32_t rank, struct wire *out)
{
    const kit_block_type *type = gguf_type_of(tensor);
    const uint64_t skipped = (uint64_t)(first * tensor->dims[0] * type->bytes);
    uint64_t bytes = (uint64_t)type->bytes;
    wire_mark mark;

    for (uint32_t i = 0; i < rank; i++)
        bytes *= (uint64_t)dims[i];
    INLAY_CHECK(skipped + bytes <= tensor->bytes);
    mark = onnx_tensor_begin(out, name, dtype_of(type), dims, rank);
    if (tensor->part->location != NULL)
        onnx_external(out, tensor->part->location, tensor->offset + skipped, bytes);
    else
        wire_bytes(out, ONNX_RAW_DATA, tensor->part->bytes + tensor->offset + skipped, (size_t)bytes);
    wire_end(out, mark);
}

/* Writes an initializer that refers to the stored blocks of the file. */
static void write_stored(const struct gguf_tensor *tensor, const char *name, const int64_t *dims, uint32_t rank,
                         uint64_t skipped, uint64_t bytes, struct wire *out)
{
    const wire_mark mark = onnx_tensor_begin(out, name, INLAY_UINT8, dims, rank);

    onnx_external(out, tensor->part->location, tensor->offset + skipped, bytes);
    wire_end(out, mark);
}

/* The node that unpacks blocks: NAME.codes, NAME.scales and perhaps NAME.zeros. */
static void write_unpack(const struct gguf_tensor *tensor, const struct weights *weights, const char *blocks,
                         struct wire *out)
{
    const char *name = weights->name;
    char outputs[3 * LONG_NAMES];

    (void)snprintf(outputs, sizeof outputs, "%s.codes %s.scales %s%s", name, name, weights->zeros ? name : "",
                   weights->zeros ? ".zeros" : "");
    onnx_node(out, "ai.inlay.UnpackBlocks", blocks, outputs,
              (onnx_attribute[]){ { "type", false, weights->coding.type->id, 0 },
                                  { "columns", false, tensor->dims[0], 0 },
                                  { "bits", false, weights->coding.bits, 0 },
                                  { "block_size", false, weights->coding.group, 0 },
                                  { "joined", false, weights->joined, 0 } },
              5);
}

static void write_blocks(const struct gguf_tensor *tensor, int64_t first, int64_t count, const struct weights *weights,
                         struct wire *out)
{
    const kit_block_type *type = weights->coding.type;
    const int64_t row = tensor->dims[0] / type->elements;
    int64_t dims[4] = { count, row, type->bytes };

    if (weights->joined)
        memcpy(dims, (int64_t[4]){ tensor->dims[2], tensor->dims[1], row, type->bytes }, sizeof dims);
    write_stored(tensor, weights->name, dims, weights->joined ? 4 : 3, (uint64_t)(row * first * type->bytes),
                 (uint64_t)(row * count * type->bytes), out);
    write_unpack(tensor, weights, weights->name, out);
}

/* Rows [first, first + count) of a matrix, or a stack of matrices, as codes with scales and perhaps zero points: a node
 * that unpacks them if the host keeps blocks, otherwise initializers. */
static inlay_status write_weights(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t first,
                                  int64_t count, const struct weights *weights, struct wire *out, inlay_diag *diag)
{
    const kit_blocks *coding = &weights->coding;
    const int64_t *all = tensor->dims, groups = all[0] / coding->group, group_bytes = coding->group * coding->bits / 8;
    struct codes codes;
    inlay_status status;

    INLAY_CHECK(coding->bits >= coding->type->bits && coding->type->group % coding->group == 0 &&
                (weights->zeros || !coding->type->zeros) && first >= 0 && first + count <= rows_of(tensor));
    if (gguf->file->keeps_blocks) {
        write_blocks(tensor, first, count, weights, out);
        return INLAY_OK;
    }
    status = read_codes(gguf, tensor, first, count, coding, weights->zeros, &codes, diag);
    if (status != INLAY_OK)
        return status;
    if (weights->joined)
        write_codes(out, weights->name, (int64_t[]){ all[2], all[1], groups * group_bytes }, 3,
                    (int64_t[]){ all[2], all[1], groups }, 3, &codes);
    else
        write_codes(out, weights->name, (int64_t[]){ count, groups, group_bytes }, 3, (int64_t[]){ count * groups }, 1,
                    &codes);
    return INLAY_OK;
}

inlay_status gguf_write_product(const struct gguf *gguf, const struct gguf_product *product, const char *input,
                                const char *output, struct wire *out, inlay_diag *diag)
{
    const struct gguf_tensor *tensor = product->tensor;
    const kit_block_type *type = gguf_type_of(tensor);
    const int64_t columns = tensor->dims[0], matrix[2] = { product->count, columns };
    const bool is_plain = type->unpack == NULL;
    /* of a table of embeddings, which is the output, too: floats once, codes in both forms */
    const char *weights = tensor->written && !is_plain ? "output.weight" : product->name;
    char inputs[3 * LONG_NAMES], turned[LONG_NAMES], other[LONG_NAMES];
    inlay_status status;

    if (is_plain) {
        if (!tensor->written)
            write_plain(tensor, weights, product->first, matrix, 2, out);
        (void)snprintf(other, sizeof other, "%s.float", output);
        /* before the Transpose: a provider may take 16-bit constants of the file and this Cast instead of floats */
        onnx_node(out, "Cast", weights, other, &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
        (void)snprintf(turned, sizeof turned, "%s.transposed", output);
        onnx_node(out, "Transpose", other, turned, NULL, 0);
        (void)snprintf(inputs, sizeof inputs, "%s %s", input, turned);
        onnx_named_node(out, product->node, "MatMul", inputs, output, NULL, 0);
        return INLAY_OK;
    }
    status =
        write_weights(gguf, tensor, product->first, product->count,
                      &(struct weights){ weights, { type, type->bits, type->group }, type->zeros, false }, out, diag);
    if (status != INLAY_OK)
        return status;
    (void)snprintf(inputs, sizeof inputs, "%s %s.codes %s.scales %s%s", input, weights, weights,
                   type->zeros ? weights : "-", type->zeros ? ".zeros" : "");
    onnx_named_node(out, product->node, "com.microsoft.MatMulNBits", inputs, output,
                    (onnx_attribute[]){ { "K", false, columns, 0 },
                                        { "N", false, product->count, 0 },
                                        { "bits", false, type->bits, 0 },
                                        { "block_size", false, type->group, 0 },
                                        { "accuracy_level", false, 4, 0 } },
                    5);
    return INLAY_OK;
}

/* Are zero points needed to read the type's codes in `bits` bits? Without them, the middle of the codes is zero. */
static bool needs_zeros(const kit_block_type *type, int64_t bits)
{
    return type->zeros || type->bits != bits;
}

inlay_status gguf_write_experts(const struct gguf *gguf, const struct gguf_experts *experts, const char *input,
                                const char *router, const char *output, struct wire *out, inlay_diag *diag)
{
    const struct gguf_tensor *const tensors[3] = { experts->gate, experts->down, experts->up };
    const struct gguf_tensor *const biases[3] = { experts->gate_bias, experts->down_bias, experts->up_bias };
    const bool biased = experts->gate_bias != NULL;
    onnx_attribute attributes[9] = { { biased ? "activation_type=swiglu" : "activation_type=silu", false, 0, 0 },
                                     { "k", false, experts->used, 0 },
                                     { "normalize_routing_weights", false, experts->normalizes, 0 } };
    char inputs[6 * LONG_NAMES], other[LONG_NAMES];
    int64_t bits = 4, group = 32;
    int coded = 0;
    size_t used, count = 3;

    for (int i = 0; i < 3; i++) {
        const kit_block_type *type = gguf_type_of(tensors[i]);

        coded += type->unpack != NULL;
        bits = type->bits > bits ? type->bits : bits;
        group = type->unpack != NULL && type->group < group ? type->group : group;
    }
    if (coded != 0 && coded != 3)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "the experts '%s', '%s' and '%s' have types with and without blocks; quantize all or none",
                          tensors[0]->name, tensors[1]->name, tensors[2]->name);
    used = (size_t)snprintf(inputs, sizeof inputs, "%s %s", input, router);
    for (int i = 0; i < 3; i++) {
        const char *name = tensors[i]->name, *bias = biased ? biases[i]->name : "-";
        const inlay_status written = biased ? gguf_write_floats(biases[i], bias, out, diag) : INLAY_OK;

        if (written != INLAY_OK)
            return written;
        if (coded != 0) {
            const struct weights weights = {
                name, { gguf_type_of(tensors[i]), bits, group }, needs_zeros(gguf_type_of(tensors[i]), bits), true
            };
            const inlay_status status = write_weights(gguf, tensors[i], 0, rows_of(tensors[i]), &weights, out, diag);

            if (status != INLAY_OK)
                return status;
            used += (size_t)snprintf(inputs + used, sizeof inputs - used, " %s.codes %s.scales %s", name, name, bias);
            continue;
        }
        write_plain(tensors[i], name, 0, (int64_t[]){ tensors[i]->dims[2], tensors[i]->dims[1], tensors[i]->dims[0] },
                    3, out);
        (void)snprintf(other, sizeof other, "%s.float", name);
        onnx_node(out, "Cast", name, other, &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
        used += (size_t)snprintf(inputs + used, sizeof inputs - used, " %s %s", other, bias);
    }
    for (int i = 0; i < 3 && coded != 0; i++)
        used += (size_t)(needs_zeros(gguf_type_of(tensors[i]), bits)
                             ? snprintf(inputs + used, sizeof inputs - used, " %s.zeros", tensors[i]->name)
                             : snprintf(inputs + used, sizeof inputs - used, " -"));
    INLAY_CHECK(used < sizeof inputs);
    if (coded != 0) {
        attributes[count++] = (onnx_attribute){ "expert_weight_bits", false, bits, 0 };
        attributes[count++] = (onnx_attribute){ "block_size", false, group, 0 };
        attributes[count++] = (onnx_attribute){ "accuracy_level", false, 4, 0 };
    }
    if (biased) {
        attributes[count++] = (onnx_attribute){ "activation_alpha", true, 0, 1.702F };
        attributes[count++] = (onnx_attribute){ "activation_beta", true, 0, 1 };
        attributes[count++] = (onnx_attribute){ "swiglu_limit", true, 0, 7 };
    }
    onnx_node(out, coded != 0 ? "com.microsoft.QMoE" : "com.microsoft.MoE", inputs, output, attributes, count);
    return INLAY_OK;
}

/* output = (OUTPUT.codes - OUTPUT.middles) * OUTPUT.factors, of [batch, tokens, groups, elements] and twice
 * [batch, tokens, groups, 1]. */
static void write_decoded(const struct gguf_tensor *tensor, const char *output, struct wire *out)
{
    const int64_t shape[3] = { 0, 0, tensor->dims[0] };
    char text[LONG_NAMES];

    (void)snprintf(text, sizeof text, "%s.shape", output);
    onnx_tensor(out, text, INLAY_INT64, (int64_t[]){ 3 }, 1, shape, sizeof shape);
    onnx_program(out,
                 "Cast $.codes > $.float to=1;Sub $.float $.middles > $.difference;"
                 "Mul $.difference $.factors > $.groups;"
                 "Reshape $.groups $.shape > $;",
                 output);
}

/* Rows of codes with zero points. */
static void write_zero_rows(const struct gguf_tensor *tensor, const kit_block_type *type, const struct codes *codes,
                            const char *indices, const char *output, struct wire *out)
{
    const int64_t rows = tensor->dims[1], groups = tensor->dims[0] / type->group;
    static const char *const parts[][2] = { { "codes", "codes" }, { "scales", "factors" }, { "zeros", "middles" } };
    char inputs[3 * LONG_NAMES], text[LONG_NAMES];

    write_codes(out, tensor->name, (int64_t[]){ rows, groups, type->group }, 3, (int64_t[]){ rows, groups, 1 }, 3,
                codes);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(inputs, sizeof inputs, "%s.%s %s", tensor->name, parts[i][0], indices);
        (void)snprintf(text, sizeof text, "%s.%s", output, parts[i][1]);
        onnx_node(out, "Gather", inputs, text, NULL, 0);
    }
    write_decoded(tensor, output, out);
}

/* Rows that are unpacked when they are read, so that the table stays in the file. */
static void write_stored_rows(const struct gguf_tensor *tensor, const kit_block_type *type, const char *indices,
                              const char *output, struct wire *out)
{
    const int64_t last = -1, dims[3] = { tensor->dims[1], tensor->dims[0] / type->elements, type->bytes };
    char inputs[3 * LONG_NAMES], text[LONG_NAMES];

    write_stored(tensor, tensor->name, dims, 3, 0, (uint64_t)(dims[0] * dims[1] * dims[2]), out);
    (void)snprintf(inputs, sizeof inputs, "%s %s", tensor->name, indices);
    (void)snprintf(text, sizeof text, "%s.blocks", output);
    onnx_node(out, "Gather", inputs, text, NULL, 0);
    write_unpack(tensor, &(struct weights){ output, { type, 8, type->group }, true, false }, text, out);
    (void)snprintf(text, sizeof text, "%s.axis", output);
    onnx_tensor(out, text, INLAY_INT64, (int64_t[]){ 1 }, 1, &last, sizeof last);
    onnx_program(out, "Unsqueeze $.scales $.axis > $.factors;Unsqueeze $.zeros $.axis > $.middles;", output);
    write_decoded(tensor, output, out);
}

inlay_status gguf_write_rows(const struct gguf *gguf, struct gguf_tensor *tensor, const char *indices,
                             const char *output, struct wire *out, inlay_diag *diag)
{
    const kit_block_type *type = gguf_type_of(tensor);
    const int64_t rows = tensor->dims[1], columns = tensor->dims[0];
    char inputs[3 * LONG_NAMES], gathered[LONG_NAMES];
    struct codes codes;
    inlay_status status;
    bool bytes;

    tensor->written = true;
    if (type->unpack == NULL) {
        write_plain(tensor, tensor->name, 0, (int64_t[]){ rows, columns }, 2, out);
        (void)snprintf(inputs, sizeof inputs, "%s %s", tensor->name, indices);
        (void)snprintf(gathered, sizeof gathered, "%s.gathered", output);
        onnx_node(out, "Gather", inputs, gathered, NULL, 0);
        onnx_node(out, "Cast", gathered, output, &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
        return INLAY_OK;
    }
    if (gguf->file->keeps_blocks) {
        write_stored_rows(tensor, type, indices, output, out);
        return INLAY_OK;
    }
    bytes = type->zeros || type->bits < 4; /* GatherBlockQuantized has no codes of 2 bits */
    status = read_codes(gguf, tensor, 0, rows, &(kit_blocks){ type, bytes ? 8 : type->bits, type->group }, bytes,
                        &codes, diag);
    if (status != INLAY_OK)
        return status;
    if (bytes) {
        write_zero_rows(tensor, type, &codes, indices, output, out);
    } else {
        write_codes(out, tensor->name, (int64_t[]){ rows, columns * type->bits / 8 }, 2,
                    (int64_t[]){ rows, columns / type->group }, 2, &codes);
        (void)snprintf(inputs, sizeof inputs, "%s.codes %s %s.scales", tensor->name, indices, tensor->name);
        onnx_node(out, "com.microsoft.GatherBlockQuantized", inputs, output,
                  (onnx_attribute[]){ { "bits", false, type->bits, 0 }, { "block_size", false, type->group, 0 } }, 2);
    }
    return INLAY_OK;
}

inlay_status gguf_write_matrix(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t first, int64_t count,
                               const char *name, struct wire *out, inlay_diag *diag)
{
    const kit_block_type *type = gguf_type_of(tensor);
    const int64_t dims[2] = { count, tensor->dims[0] }, blocks = count * tensor->dims[0] / type->elements;
    const size_t bytes = (size_t)(count * tensor->dims[0]) * sizeof(float);
    const uint8_t *block =
        tensor->part->bytes + tensor->offset + (first * tensor->dims[0] / type->elements * type->bytes);
    const char *location;
    char held[LONG_NAMES];
    float *floats;
    wire_mark mark;

    INLAY_CHECK(first >= 0 && first + count <= rows_of(tensor));
    if (type->unpack == NULL) {
        (void)snprintf(held, sizeof held, "%s.held", name);
        write_plain(tensor, held, first, dims, 2, out);
        onnx_node(out, "Cast", held, name, &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
        return INLAY_OK;
    }
    floats = gguf->file->alloc(gguf->file->alloc_ctx, bytes, &location);
    if (floats == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for the weights of '%s'", tensor->name);
    for (int64_t i = 0; i < blocks; i++, block += type->bytes) {
        float scales[KIT_MAX_BLOCK], zeros[KIT_MAX_BLOCK];
        uint8_t codes[KIT_MAX_BLOCK];

        type->unpack(block, codes, scales, zeros);
        for (int64_t j = 0; j < type->elements; j++) {
            const float zero = type->zeros ? zeros[j / type->group] : (float)(1 << (type->bits - 1));
            const uint8_t code = type->table != NULL ? type->table[codes[j]] : codes[j];

            floats[i * type->elements + j] = ((float)code - zero) * scales[j / type->group];
        }
    }
    mark = onnx_tensor_begin(out, name, INLAY_FLOAT, dims, 2);
    onnx_external(out, location, 0, bytes);
    wire_end(out, mark);
    return INLAY_OK;
}

static inlay_status check_floats(const struct gguf_tensor *tensor, inlay_diag *diag)
{
    if (gguf_type_of(tensor)->id == plain_types[0].id)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "tensor '%s' has type %s; it must be F32", tensor->name,
                      gguf_type_of(tensor)->name);
}

inlay_status gguf_write_floats(const struct gguf_tensor *tensor, const char *name, struct wire *out, inlay_diag *diag)
{
    const inlay_status status = check_floats(tensor, diag);

    INLAY_CHECK(tensor->rank == 1 || tensor->rank == 2);
    if (status == INLAY_OK)
        write_plain(tensor, name, 0, (int64_t[]){ tensor->dims[tensor->rank - 1], tensor->dims[0] }, tensor->rank, out);
    return status;
}

inlay_status gguf_write_part(const struct gguf_tensor *vector, const char *name, int64_t first, int64_t count,
                             struct wire *out, inlay_diag *diag)
{
    const inlay_status status = check_floats(vector, diag);
    struct gguf_tensor column = *vector; /* rows of one element */

    INLAY_CHECK(vector->rank == 1 && first >= 0 && first + count <= vector->dims[0]);
    column.dims[0] = 1;
    if (status == INLAY_OK)
        write_plain(&column, name, first, &count, 1, out);
    return status;
}

float gguf_element(const struct gguf_tensor *tensor, int64_t i)
{
    float value;

    INLAY_CHECK(tensor->type == 0 && i >= 0 && (size_t)(i + 1) * sizeof value <= tensor->bytes);
    memcpy(&value, tensor->part->bytes + tensor->offset + (size_t)i * sizeof value, sizeof value);
    return value;
}
