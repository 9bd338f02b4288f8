/* gguf_weights.c - the types of weights, and products with them. Blocks of a quantized type become codes of 4 or 8 bits
 * with a scale, and a zero point if the type has one, for each group of elements. Only zero points are rounded, to
 * single precision. */
#include "formats/gguf.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCK = 256, LONG_NAMES = 4 * GGUF_NAME };

/* Unpacks a block: a code for each element, a scale and with zeros a zero point for each group. */
typedef void (*unpack_fn)(const uint8_t *block, uint8_t *codes, float *scales, float *zeros);

struct weight_type {
    uint32_t id;
    const char *name;
    int64_t block;     /* elements */
    size_t bytes;      /* of a block */
    inlay_dtype dtype; /* of a type without blocks; otherwise INLAY_UINT8 */
    int64_t bits, group;
    bool zeros;
    unpack_fn unpack;
};

/* A float16, of which each block has one or two: element_convert() took a sixth of the time of a translation. */
static float half_at(const uint8_t *at)
{
    const uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8, rest = (bits & 0x7fff) << 13;
    const bool special = (bits & 0x7c00) == 0x7c00; /* infinity or NaN */
    const uint32_t word = special ? rest | 0x7f800000 : rest + (112u << 23); /* the difference of the biases */
    float value;

    memcpy(&value, &word, sizeof value);
    if ((bits & 0x7c00) == 0)
        value = (float)(bits & 0x3ff) * 0x1p-24f;
    return (bits & 0x8000) != 0 ? -value : value;
}

/* value = scale * code - minimum. Without a scale all values of the group are the same. */
static void set_minimum(float scale, float minimum, uint8_t *codes, size_t count, float *out_scale, float *out_zero)
{
    if (scale == 0) {
        memset(codes, 0, count);
        *out_scale = minimum;
        *out_zero = 1;
    } else {
        *out_scale = scale;
        *out_zero = minimum / scale;
    }
}

static void split_nibbles(const uint8_t *packed, size_t count, uint8_t *codes)
{
    for (size_t i = 0; i < count; i++) {
        codes[i] = packed[i] & 15;
        codes[count + i] = packed[i] >> 4;
    }
}

/* Adds bit i of the word to code i, as bit 4. */
static void add_fifth_bits(const uint8_t *word, uint8_t *codes)
{
    for (size_t i = 0; i < 32; i++)
        codes[i] = (uint8_t)(codes[i] | ((word[i / 8] >> i % 8 & 1) << 4));
}

static void unpack_q4_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = half_at(block);
    split_nibbles(block + 2, 16, codes);
}

static void unpack_q4_1(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    split_nibbles(block + 4, 16, codes);
    set_minimum(half_at(block), -half_at(block + 2), codes, 32, scales, zeros);
}

static void unpack_q5_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = half_at(block);
    split_nibbles(block + 6, 16, codes);
    add_fifth_bits(block + 2, codes);
    for (size_t i = 0; i < 32; i++)
        codes[i] = (uint8_t)(codes[i] + 128 - 16);
}

static void unpack_q5_1(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    split_nibbles(block + 8, 16, codes);
    add_fifth_bits(block + 4, codes);
    set_minimum(half_at(block), -half_at(block + 2), codes, 32, scales, zeros);
}

static void unpack_q8_0(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    (void)zeros;
    scales[0] = half_at(block);
    for (size_t i = 0; i < 32; i++)
        codes[i] = block[2 + i] ^ 0x80; /* -128 becomes 0 */
}

/* Scale and minimum of group `i` of Q4_K and Q5_K, 6 bits each. */
static void unpack_six_bits(const uint8_t *packed, size_t i, float *scale, float *minimum)
{
    if (i < 4) {
        *scale = (float)(packed[i] & 63);
        *minimum = (float)(packed[i + 4] & 63);
    } else {
        *scale = (float)((packed[i + 4] & 15) | packed[i - 4] >> 6 << 4);
        *minimum = (float)(packed[i + 4] >> 4 | packed[i] >> 6 << 4);
    }
}

static void set_minimums(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    const float factor = half_at(block), minimum_factor = half_at(block + 2);

    for (size_t i = 0; i < 8; i++) {
        float scale, minimum;

        unpack_six_bits(block + 4, i, &scale, &minimum);
        set_minimum(factor * scale, minimum_factor * minimum, codes + 32 * i, 32, &scales[i], &zeros[i]);
    }
}

static void unpack_q4_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    for (size_t i = 0; i < 4; i++)
        split_nibbles(block + 16 + 32 * i, 32, codes + 64 * i);
    set_minimums(block, codes, scales, zeros);
}

static void unpack_q5_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    for (size_t i = 0; i < 4; i++)
        split_nibbles(block + 48 + 32 * i, 32, codes + 64 * i);
    for (size_t i = 0; i < 256; i++)
        codes[i] = (uint8_t)(codes[i] | ((block[16 + i % 32] >> i / 32 & 1) << 4));
    set_minimums(block, codes, scales, zeros);
}

static void unpack_q6_k(const uint8_t *block, uint8_t *codes, float *scales, float *zeros)
{
    const uint8_t *high = block + 128;

    (void)zeros;
    for (size_t i = 0; i < 256; i++) {
        const size_t half = i / 128, at = i % 128; /* of 64 bytes with the low bits, 32 with the high ones */
        const uint8_t low = block[64 * half + at % 64];
        const int code = (at < 64 ? low & 15 : low >> 4) | (high[32 * half + at % 32] >> 2 * (at / 32) & 3) << 4;

        codes[i] = (uint8_t)(code + 128 - 32);
    }
    for (size_t i = 0; i < 16; i++)
        scales[i] = half_at(block + 208) * (float)(int8_t)block[192 + i];
}

static const struct weight_type types[] = {
    { 0, "F32", 1, 4, INLAY_FLOAT, 0, 1, false, NULL },
    { 1, "F16", 1, 2, INLAY_FLOAT16, 0, 1, false, NULL },
    { 30, "BF16", 1, 2, INLAY_BFLOAT16, 0, 1, false, NULL },
    { 2, "Q4_0", 32, 18, INLAY_UINT8, 4, 32, false, unpack_q4_0 },
    { 3, "Q4_1", 32, 20, INLAY_UINT8, 4, 32, true, unpack_q4_1 },
    { 6, "Q5_0", 32, 22, INLAY_UINT8, 8, 32, false, unpack_q5_0 },
    { 7, "Q5_1", 32, 24, INLAY_UINT8, 8, 32, true, unpack_q5_1 },
    { 8, "Q8_0", 32, 34, INLAY_UINT8, 8, 32, false, unpack_q8_0 },
    { 12, "Q4_K", 256, 144, INLAY_UINT8, 4, 32, true, unpack_q4_k },
    { 13, "Q5_K", 256, 176, INLAY_UINT8, 8, 32, true, unpack_q5_k },
    { 14, "Q6_K", 256, 210, INLAY_UINT8, 8, 16, false, unpack_q6_k },
};

static const struct weight_type *type_of(const struct gguf_tensor *tensor)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == tensor->type)
            return &types[i];
    return NULL;
}

bool gguf_tensor_bytes(const struct gguf_tensor *tensor, uint64_t *bytes, const char **name)
{
    const struct weight_type *type = type_of(tensor);
    uint64_t count = 1;

    for (uint32_t i = 0; i < tensor->rank; i++) /* the product was checked */
        count *= (uint64_t)tensor->dims[i];
    if (type == NULL)
        return false;
    *name = type->name;
    if (tensor->rank > 0 && tensor->dims[0] % type->block != 0)
        return false;
    return !__builtin_mul_overflow(count / (uint64_t)type->block, type->bytes, bytes);
}

/* The rows of a matrix, or of all matrices of a stack. */
static int64_t rows_of(const struct gguf_tensor *tensor)
{
    return tensor->dims[1] * (tensor->rank == 3 ? tensor->dims[2] : 1);
}

/* Rows of a matrix as codes of `bits` bits with a scale, and perhaps a zero point, for each `group` elements: those of
 * the type, or more bits and smaller groups. */
struct coding {
    int64_t bits, group;
    bool zeros;
};

/* The codes, scales and zero points, in memory of the model. */
struct codes {
    const char *location; /* of the memory */
    uint8_t *packed;      /* [rows, columns * bits / 8] */
    float *scales;        /* [rows, columns / group] */
    float *zeros;         /* like scales; NULL: none */
    size_t bytes, groups;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Writes the codes of a block with its scales and zero points. */
static void write_block(const struct weight_type *type, const struct coding *coding, const uint8_t *block,
                        uint8_t *packed, float *scales, float *zeros)
{
    const size_t each = (size_t)(type->group / coding->group), groups = (size_t)(type->block / coding->group);
    uint8_t codes[MAX_BLOCK];
    float own_scales[MAX_BLOCK], own_zeros[MAX_BLOCK];

    type->unpack(block, codes, own_scales, own_zeros);
    for (size_t i = 0; i < groups; i++)
        scales[i] = own_scales[i / each];
    for (size_t i = 0; zeros != NULL && i < groups; i++)
        zeros[i] = type->zeros ? own_zeros[i / each] : (float)(1 << (type->bits - 1));
    if (coding->bits == 8)
        memcpy(packed, codes, (size_t)type->block);
    else
        for (size_t k = 0; k < (size_t)type->block; k += 2)
            packed[k / 2] = (uint8_t)(codes[k] | codes[k + 1] << 4);
}

static inlay_status read_codes(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t first, int64_t count,
                               const struct coding *coding, struct codes *out, inlay_diag *diag)
{
    const struct weight_type *type = type_of(tensor);
    const size_t blocks = (size_t)(tensor->dims[0] / type->block * count);
    const size_t groups = (size_t)(type->block / coding->group);
    const size_t block_bytes = (size_t)(type->block * coding->bits / 8);
    const uint8_t *from =
        gguf->file->bytes + tensor->offset + (size_t)(tensor->dims[0] / type->block * first) * type->bytes;

    INLAY_CHECK(type->unpack != NULL && coding->bits >= type->bits && type->group % coding->group == 0 &&
                (coding->zeros || !type->zeros) && first >= 0 && first + count <= rows_of(tensor));
    *out = (struct codes){ .bytes = blocks * block_bytes, .groups = blocks * groups };
    out->packed = gguf->file->alloc(
        gguf->file->alloc_ctx, aligned(out->bytes) + (coding->zeros ? 2 : 1) * aligned(out->groups * sizeof(float)),
        &out->location);
    if (out->packed == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for the weights of '%s'", tensor->name);
    out->scales = (float *)(void *)(out->packed + aligned(out->bytes));
    out->zeros = coding->zeros ? out->scales + aligned(out->groups * sizeof(float)) / sizeof(float) : NULL;
    for (size_t i = 0; i < blocks; i++)
        write_block(type, coding, from + i * type->bytes, out->packed + i * block_bytes, out->scales + i * groups,
                    coding->zeros ? out->zeros + i * groups : NULL);
    return INLAY_OK;
}

static void write_part(struct wire *out, const char *name, inlay_dtype dtype, const int64_t *dims, uint32_t rank,
                       const struct codes *codes, const void *part, size_t bytes)
{
    const wire_mark mark = onnx_tensor_begin(out, name, dtype, dims, rank);

    onnx_external(out, codes->location, (uint64_t)((const uint8_t *)part - codes->packed), bytes);
    wire_end(out, mark);
}

/* Initializers: the codes as `name`, and their scales and zero points. group_dims: the shape of the latter. */
static void write_codes(struct wire *out, const char *name, const int64_t *dims, uint32_t rank,
                        const int64_t *group_dims, uint32_t group_rank, const struct codes *codes)
{
    char part[LONG_NAMES];

    write_part(out, name, INLAY_UINT8, dims, rank, codes, codes->packed, codes->bytes);
    (void)snprintf(part, sizeof part, "%s.scales", name);
    write_part(out, part, INLAY_FLOAT, group_dims, group_rank, codes, codes->scales, codes->groups * sizeof(float));
    (void)snprintf(part, sizeof part, "%s.zeros", name);
    if (codes->zeros != NULL)
        write_part(out, part, INLAY_FLOAT, group_dims, group_rank, codes, codes->zeros, codes->groups * sizeof(float));
}

static void write_plain(const struct gguf *gguf, const struct gguf_tensor *tensor, const char *name, int64_t first,
                        const int64_t *dims, uint32_t rank, struct wire *out)
{
    const struct weight_type *type = type_of(tensor);
    const uint64_t skipped = (uint64_t)(first * tensor->dims[0]) * type->bytes;
    uint64_t bytes = type->bytes;
    wire_mark mark;

    for (uint32_t i = 0; i < rank; i++)
        bytes *= (uint64_t)dims[i];
    INLAY_CHECK(skipped + bytes <= tensor->bytes);
    mark = onnx_tensor_begin(out, name, type->dtype, dims, rank);
    if (gguf->file->location != NULL)
        onnx_external(out, gguf->file->location, tensor->offset + skipped, bytes);
    else
        wire_bytes(out, ONNX_RAW_DATA, gguf->file->bytes + tensor->offset + skipped, (size_t)bytes);
    wire_end(out, mark);
}

inlay_status gguf_write_product(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t first, int64_t count,
                                const char *input, const char *output, struct wire *out, inlay_diag *diag)
{
    const struct weight_type *type = type_of(tensor);
    const int64_t columns = tensor->dims[0], matrix[2] = { count, columns };
    char inputs[3 * LONG_NAMES], weights[LONG_NAMES / 2], other[LONG_NAMES / 2];
    struct codes codes;
    inlay_status status;

    (void)snprintf(weights, sizeof weights, "%s.weights", output);
    if (type->unpack == NULL) {
        write_plain(gguf, tensor, weights, first, matrix, 2, out);
        (void)snprintf(other, sizeof other, "%s.float", output);
        /* before the Transpose: a provider may take 16-bit constants of the file and this Cast instead of floats */
        onnx_node(out, "Cast", weights, other, &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
        (void)snprintf(weights, sizeof weights, "%s.transposed", output);
        onnx_node(out, "Transpose", other, weights, NULL, 0);
        (void)snprintf(inputs, sizeof inputs, "%s %s", input, weights);
        onnx_node(out, "MatMul", inputs, output, NULL, 0);
        return INLAY_OK;
    }
    status =
        read_codes(gguf, tensor, first, count, &(struct coding){ type->bits, type->group, type->zeros }, &codes, diag);
    if (status != INLAY_OK)
        return status;
    write_codes(out, weights, (int64_t[]){ count, columns / type->group, type->group * type->bits / 8 }, 3,
                (int64_t[]){ (int64_t)codes.groups }, 1, &codes);
    (void)snprintf(inputs, sizeof inputs, "%s %s %s.scales %s%s", input, weights, weights, type->zeros ? weights : "-",
                   type->zeros ? ".zeros" : "");
    onnx_node(out, "com.microsoft.MatMulNBits", inputs, output,
              (onnx_attribute[]){ { "K", false, columns, 0 },
                                  { "N", false, count, 0 },
                                  { "bits", false, type->bits, 0 },
                                  { "block_size", false, type->group, 0 },
                                  { "accuracy_level", false, 4, 0 } },
              5);
    return INLAY_OK;
}

/* Are zero points needed to read the type's codes in `bits` bits? Without them, the middle of the codes is zero. */
static bool needs_zeros(const struct weight_type *type, int64_t bits)
{
    return type->zeros || type->bits != bits;
}

inlay_status gguf_write_experts(const struct gguf *gguf, const struct gguf_experts *experts, const char *input,
                                const char *router, const char *output, struct wire *out, inlay_diag *diag)
{
    const struct gguf_tensor *const tensors[3] = { experts->gate, experts->down, experts->up };
    char inputs[4 * LONG_NAMES], name[LONG_NAMES], plain[LONG_NAMES];
    int64_t bits = 4, group = 32;
    int coded = 0;
    size_t used;

    for (int i = 0; i < 3; i++) {
        const struct weight_type *type = type_of(tensors[i]);

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
        (void)snprintf(name, sizeof name, "%s.experts", tensors[i]->name);
        if (coded != 0) {
            const int64_t *dims = tensors[i]->dims;
            struct codes codes;
            inlay_status status =
                read_codes(gguf, tensors[i], 0, rows_of(tensors[i]),
                           &(struct coding){ bits, group, needs_zeros(type_of(tensors[i]), bits) }, &codes, diag);

            if (status != INLAY_OK)
                return status;
            write_codes(out, name, (int64_t[]){ dims[2], dims[1], dims[0] * bits / 8 }, 3,
                        (int64_t[]){ dims[2], dims[1], dims[0] / group }, 3, &codes);
            used += (size_t)snprintf(inputs + used, sizeof inputs - used, " %s %s.scales -", name, name);
            continue;
        }
        (void)snprintf(plain, sizeof plain, "%s.plain", tensors[i]->name);
        write_plain(gguf, tensors[i], plain, 0,
                    (int64_t[]){ tensors[i]->dims[2], tensors[i]->dims[1], tensors[i]->dims[0] }, 3, out);
        onnx_node(out, "Cast", plain, name, &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
        used += (size_t)snprintf(inputs + used, sizeof inputs - used, " %s -", name);
    }
    for (int i = 0; i < 3 && coded != 0; i++)
        used += (size_t)(needs_zeros(type_of(tensors[i]), bits)
                             ? snprintf(inputs + used, sizeof inputs - used, " %s.experts.zeros", tensors[i]->name)
                             : snprintf(inputs + used, sizeof inputs - used, " -"));
    INLAY_CHECK(used < sizeof inputs);
    onnx_node(out, coded != 0 ? "com.microsoft.QMoE" : "com.microsoft.MoE", inputs, output,
              (onnx_attribute[]){ { "activation_type=silu", false, 0, 0 },
                                  { "k", false, experts->used, 0 },
                                  { "normalize_routing_weights", false, experts->normalizes, 0 },
                                  { "expert_weight_bits", false, bits, 0 },
                                  { "block_size", false, group, 0 },
                                  { "accuracy_level", false, 4, 0 } },
              coded != 0 ? 6 : 3);
    return INLAY_OK;
}

/* Rows of codes with zero points: (codes - zero) * scale. */
static void write_zero_rows(const struct gguf_tensor *tensor, const struct weight_type *type, const struct codes *codes,
                            const char *indices, const char *output, struct wire *out)
{
    const int64_t rows = tensor->dims[1], groups = tensor->dims[0] / type->group;
    const int64_t shape[3] = { 0, 0, tensor->dims[0] };
    char inputs[3 * LONG_NAMES];

    write_codes(out, "rows.codes", (int64_t[]){ rows, groups, type->group }, 3, (int64_t[]){ rows, groups, 1 }, 3,
                codes);
    onnx_tensor(out, "rows.shape", INLAY_INT64, (int64_t[]){ 3 }, 1, shape, sizeof shape);
    (void)snprintf(inputs, sizeof inputs, "rows.codes %s", indices);
    onnx_node(out, "Gather", inputs, "rows.code", NULL, 0);
    (void)snprintf(inputs, sizeof inputs, "rows.codes.scales %s", indices);
    onnx_node(out, "Gather", inputs, "rows.scale", NULL, 0);
    (void)snprintf(inputs, sizeof inputs, "rows.codes.zeros %s", indices);
    onnx_node(out, "Gather", inputs, "rows.zero", NULL, 0);
    onnx_node(out, "Cast", "rows.code", "rows.float", &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
    onnx_node(out, "Sub", "rows.float rows.zero", "rows.difference", NULL, 0);
    onnx_node(out, "Mul", "rows.difference rows.scale", "rows.groups", NULL, 0);
    onnx_node(out, "Reshape", "rows.groups rows.shape", output, NULL, 0);
}

inlay_status gguf_write_rows(const struct gguf *gguf, const struct gguf_tensor *tensor, const char *indices,
                             const char *output, struct wire *out, inlay_diag *diag)
{
    const struct weight_type *type = type_of(tensor);
    const int64_t rows = tensor->dims[1], columns = tensor->dims[0];
    char inputs[3 * LONG_NAMES];
    struct codes codes;
    inlay_status status;

    if (type->unpack == NULL) {
        write_plain(gguf, tensor, "rows.weights", 0, (int64_t[]){ rows, columns }, 2, out);
        (void)snprintf(inputs, sizeof inputs, "rows.weights %s", indices);
        onnx_node(out, "Gather", inputs, "rows.gathered", NULL, 0);
        onnx_node(out, "Cast", "rows.gathered", output, &(onnx_attribute){ "to", false, INLAY_FLOAT, 0 }, 1);
        return INLAY_OK;
    }
    status = read_codes(gguf, tensor, 0, rows,
                        &(struct coding){ type->zeros ? 8 : type->bits, type->group, type->zeros }, &codes, diag);
    if (status != INLAY_OK)
        return status;
    if (type->zeros) {
        write_zero_rows(tensor, type, &codes, indices, output, out);
    } else {
        write_codes(out, "rows.codes", (int64_t[]){ rows, columns * type->bits / 8 }, 2,
                    (int64_t[]){ rows, columns / type->group }, 2, &codes);
        (void)snprintf(inputs, sizeof inputs, "rows.codes %s rows.codes.scales", indices);
        onnx_node(out, "com.microsoft.GatherBlockQuantized", inputs, output,
                  (onnx_attribute[]){ { "bits", false, type->bits, 0 }, { "block_size", false, type->group, 0 } }, 2);
    }
    return INLAY_OK;
}

inlay_status gguf_write_floats(const struct gguf *gguf, const struct gguf_tensor *tensor, const char *name,
                               struct wire *out, inlay_diag *diag)
{
    if (type_of(tensor)->dtype != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "tensor '%s' has type %s; it must be F32", tensor->name,
                          type_of(tensor)->name);
    INLAY_CHECK(tensor->rank == 1);
    write_plain(gguf, tensor, name, 0, tensor->dims, 1, out);
    return INLAY_OK;
}

float gguf_element(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t i)
{
    float value;

    INLAY_CHECK(tensor->type == 0 && i >= 0 && (size_t)(i + 1) * sizeof value <= tensor->bytes);
    memcpy(&value, gguf->file->bytes + tensor->offset + (size_t)i * sizeof value, sizeof value);
    return value;
}
