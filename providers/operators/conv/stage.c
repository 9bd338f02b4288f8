/* stage.c - copies channels of the input into padded buffers, with columns split by stride. */
#include "simd/convert.h"
#include "operators/conv.h"

/* Whether dim i would mostly contain padding, or gaps that no tap reads, if it were not staged as a list. */
static bool needs_list(const conv_geometry *geometry, uint32_t i)
{
    int64_t plain, met;

    return !__builtin_mul_overflow(geometry->out[i], geometry->kernel[i], &met) && met < INT64_MAX / 4 &&
           (__builtin_mul_overflow(geometry->out[i] - 1, geometry->stride[i], &plain) ||
            __builtin_add_overflow(plain, (geometry->kernel[i] - 1) * geometry->dilation[i], &plain) ||
            __builtin_add_overflow(geometry->stride[i], plain, &plain) || plain > 64 + 2 * (geometry->in[i] + met));
}

bool conv_stage_init(conv_stage *stage, conv_geometry *geometry, inlay_dtype dtype, uint32_t bytes)
{
    *stage = (conv_stage){ .dtype = dtype, .bytes = bytes };
    if (geometry->out[0] == 0 || geometry->out[1] == 0 || geometry->out[2] == 0) /* empty output: nothing is staged */
        return true;
    for (uint32_t i = 0; i < 3; i++) {
        stage->stride[i] = geometry->stride[i];
        stage->dilation[i] = geometry->dilation[i];
        stage->begin[i] = geometry->begin[i];
        stage->listed[i] = needs_list(geometry, i);
        if (!stage->listed[i])
            continue;
        geometry->stride[i] = geometry->kernel[i];
        geometry->dilation[i] = 1;
        geometry->begin[i] = 0;
    }
    for (uint32_t i = 0; i < 2; i++)
        stage->padded[i] =
            (geometry->out[i] - 1) * geometry->stride[i] + (geometry->kernel[i] - 1) * geometry->dilation[i] + 1;
    stage->padded[2] = geometry->out[2] + (geometry->kernel[2] - 1) * geometry->dilation[2] / geometry->stride[2];
    return !__builtin_mul_overflow(stage->padded[2], geometry->stride[2], &stage->row) &&
           !__builtin_mul_overflow(stage->row, stage->padded[1], &stage->channel) &&
           !__builtin_mul_overflow(stage->channel, stage->padded[0], &stage->channel);
}

int64_t conv_tap_offset(const conv_stage *stage, const conv_geometry *geometry, int64_t tap)
{
    int64_t w = tap % geometry->kernel[2] * geometry->dilation[2],
            h = tap / geometry->kernel[2] % geometry->kernel[1] * geometry->dilation[1];
    int64_t d = tap / geometry->kernel[2] / geometry->kernel[1] * geometry->dilation[0];

    return (d * stage->padded[1] + h) * stage->row + w % geometry->stride[2] * stage->padded[2] +
           w / geometry->stride[2];
}

/* Whether any output reads index i of a padded dim, or the i-th set of columns. */
static bool is_read(int64_t i, int64_t kernel, int64_t stride, int64_t dilation)
{
    if (kernel >= stride) /* the common case: every index is read */
        return true;
    for (int64_t k = 0; k < kernel; k++)
        if ((i - k * dilation) % stride == 0)
            return true;
    return false;
}

#define STAGE_ROW(name, S, D, LOAD)                                                                                    \
    static inline void name(const S *from, int64_t step, int64_t count, int32_t zero, D *to)                           \
    {                                                                                                                  \
        (void)zero;                                                                                                    \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < count; i++)                                                                        \
                to[i] = LOAD(from[i]);                                                                                 \
        else if (step == 2)                                                                                            \
            for (int64_t i = 0; i < count; i++)                                                                        \
                to[i] = LOAD(from[2 * i]);                                                                             \
        else                                                                                                           \
            for (int64_t i = 0; i < count; i++)                                                                        \
                to[i] = LOAD(from[step * i]);                                                                          \
    }
#define AS_IS(element) (element)
#define LESS_ZERO(element) ((int16_t)((element)-zero))
STAGE_ROW(row_32, uint32_t, uint32_t, AS_IS)
STAGE_ROW(row_64, uint64_t, uint64_t, AS_IS)
STAGE_ROW(row_f16, uint16_t, float, f16_to_f32)
STAGE_ROW(row_bf16, uint16_t, float, bf16_to_f32)
STAGE_ROW(row_s8, int8_t, int16_t, LESS_ZERO)
STAGE_ROW(row_u8, uint8_t, int16_t, LESS_ZERO)

static void copy_row(const conv_stage *stage, const char *from, int64_t step, int64_t count, void *to)
{
    switch (stage->dtype) {
    case INLAY_FLOAT16:
        row_f16((const void *)from, step, count, 0, to);
        break;
    case INLAY_BFLOAT16:
        row_bf16((const void *)from, step, count, 0, to);
        break;
    case INLAY_INT8:
        row_s8((const void *)from, step, count, stage->zero, to);
        break;
    case INLAY_UINT8:
        row_u8((const void *)from, step, count, stage->zero, to);
        break;
    case INLAY_DOUBLE:
        row_64((const void *)from, step, count, 0, to);
        break;
    default:
        row_32((const void *)from, step, count, 0, to);
        break;
    }
}

/* Stages one row of the input into its sets of columns. from NULL: a row of padding. */
static void stage_row(const conv_stage *stage, const conv_geometry *geometry, const char *from, size_t width, char *to)
{
    int64_t stride = geometry->stride[2], columns = stage->padded[2];

    for (int64_t set = 0; set < stride; set++, to += columns * stage->bytes) {
        int64_t first, last;
        if (!is_read(set, geometry->kernel[2], stride, geometry->dilation[2]))
            continue;
        /* Columns t of this set with 0 <= t * stride + set - begin < in. */
        first = geometry->begin[2] > set ? (geometry->begin[2] - set + stride - 1) / stride : 0;
        last = geometry->in[2] + geometry->begin[2] - set;
        last = last > 0 ? (last + stride - 1) / stride : 0;
        last = last < columns ? last : columns;
        if (from == NULL || first >= last) {
            memset(to, 0, (size_t)columns * stage->bytes);
            continue;
        }
        memset(to, 0, (size_t)first * stage->bytes);
        copy_row(stage, from + (size_t)(first * stride + set - geometry->begin[2]) * width, stride, last - first,
                 to + first * stage->bytes);
        memset(to + last * stage->bytes, 0, (size_t)(columns - last) * stage->bytes);
    }
}

/* The same for listed columns. */
static void stage_listed_row(const conv_stage *stage, const conv_geometry *geometry, const char *from, size_t width,
                             char *to)
{
    memset(to, 0, (size_t)(stage->row * stage->bytes));
    for (int64_t k = 0; k < geometry->kernel[2] && from != NULL; k++)
        for (int64_t t = 0; t < geometry->out[2]; t++) {
            const int64_t i = t * stage->stride[2] + k * stage->dilation[2] - stage->begin[2];

            if (i >= 0 && i < geometry->in[2])
                copy_row(stage, from + (size_t)i * width, 1, 1, to + (k * stage->padded[2] + t) * stage->bytes);
        }
}

/* The input index of row or plane i of the staged input. */
static int64_t source_of(const conv_stage *stage, const conv_geometry *geometry, uint32_t dim, int64_t i)
{
    return !stage->listed[dim] ? i - geometry->begin[dim]
                               : i / geometry->kernel[dim] * stage->stride[dim] +
                                     i % geometry->kernel[dim] * stage->dilation[dim] - stage->begin[dim];
}

void conv_stage_channel(const conv_stage *stage, const conv_geometry *geometry, const void *input, int64_t first,
                        void *out)
{
    size_t width = inlay_dtype_bits(stage->dtype) / 8;
    const char *plane = (const char *)input + (size_t)first * width;
    char *to = out;

    for (int64_t d = 0; d < stage->padded[0]; d++) {
        for (int64_t h = 0; h < stage->padded[1]; h++, to += stage->row * stage->bytes) {
            const int64_t z = source_of(stage, geometry, 0, d), y = source_of(stage, geometry, 1, h);
            const bool inside = z >= 0 && z < geometry->in[0] && y >= 0 && y < geometry->in[1];
            const char *row = inside ? plane + (size_t)((z * geometry->in[1] + y) * geometry->in[2]) * width : NULL;

            if (!is_read(d, geometry->kernel[0], geometry->stride[0], geometry->dilation[0]) ||
                !is_read(h, geometry->kernel[1], geometry->stride[1], geometry->dilation[1]))
                continue;
            if (stage->listed[2])
                stage_listed_row(stage, geometry, row, width, to);
            else
                stage_row(stage, geometry, row, width, to);
        }
    }
}
