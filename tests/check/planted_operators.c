/* Operators that no other provider has, in which option `fault` plants a defect: Smooth (x + its neighbour / 2), Join
 * (any number of strings), Compact (the positive elements). Without it nothing is wrong, except that Bare has no
 * example and that of Loose permits any result. */
#include "inlay/kit.h"
#include <string.h>

enum fault {
    NONE,
    SMOOTH_SIZE,    /* the result for the first tensor of a size is returned for all of that size */
    SMOOTH_ADDRESS, /* the result is kept as long as the input is at the same address */
    SMOOTH_FIRST,   /* the first tensor decides the weight */
    SMOOTH_LONGEST, /* reads up to the length of the longest tensor so far */
    SMOOTH_COUNT,   /* every fifth run */
    SMOOTH_EMPTY,   /* fails if there is no element */
    JOIN_BUFFER,    /* all results in one static buffer */
    JOIN_LATEST,    /* the text of the last element in a static buffer */
    JOIN_NUL,       /* ends at a NUL byte */
    JOIN_FOUR,      /* reads four inputs */
    JOIN_TEN,       /* reads ten inputs */
    JOIN_TABLE,     /* has room for eight inputs */
    COMPACT_INFER,  /* infer states that all elements are positive */
    COMPACT_RANK,   /* infer states another rank */
    COMPACT_STALE,  /* the length of the first result of an input of this length */
    FAULTS
};

/* Shape inference belongs to no provider, so the option is static. */
static int64_t fault;

static inlay_status run_smooth(const kit_call *call)
{
    enum { SIZES = 64 };
    static const float *from_latest;
    static float kept[SIZES][SIZES], weight;
    static bool has[SIZES];
    static int64_t longest, calls;
    const float *x = call->in[0].data;
    float *y = call->out[0].data, by = 0.5F;
    const int64_t n = call->in[0].count, slot = n < SIZES ? n : 0;

    calls++;
    longest = n > longest ? n : longest;
    if (fault == SMOOTH_EMPTY && n == 0)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "Smooth: empty");
    if (fault == SMOOTH_FIRST) {
        if (weight == 0 && n > 0)
            weight = 0.5F + 0.01F * x[0];
        by = weight;
    }
    if (((fault == SMOOTH_SIZE && has[slot]) || (fault == SMOOTH_ADDRESS && from_latest == x)) && slot > 0) {
        memcpy(y, kept[slot], (size_t)n * sizeof *y);
        return INLAY_OK;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] + by * x[i + 1 < n ? i + 1 : i];
    if (fault == SMOOTH_COUNT && calls % 5 == 0 && n > 0)
        y[n - 1] += 1;
    if (fault == SMOOTH_LONGEST && n > 0)
        y[0] += (float)(longest - n);
    from_latest = x;
    if (slot > 0)
        memcpy(kept[slot], y, (size_t)n * sizeof *y);
    has[slot] = true;
    return INLAY_OK;
}

static inlay_status run_join(const kit_call *call)
{
    static char buffer[4096];
    char parts[8][64];
    inlay_str *y = call->out[0].data;
    uint32_t inputs = call->in_count;

    inputs = fault == JOIN_FOUR && inputs > 4 ? 4 : fault == JOIN_TEN && inputs > 10 ? 10 : inputs;
    for (int64_t i = 0; i < call->out[0].count; i++) {
        const bool is_static = fault == JOIN_BUFFER || (fault == JOIN_LATEST && i + 1 == call->out[0].count);
        uint64_t bytes = 0, at = 0;
        char *text;

        for (uint32_t k = 0; k < inputs; k++)
            bytes += ((const inlay_str *)call->in[k].data)[i].bytes;
        text = is_static ? buffer : kit_alloc_string(call, bytes + 1);
        if (text == NULL || bytes >= sizeof buffer)
            return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a text of %llu bytes",
                              (unsigned long long)bytes);
        for (uint32_t k = 0; k < inputs; k++) {
            const inlay_str part = ((const inlay_str *)call->in[k].data)[i];
            const uint64_t length = fault == JOIN_NUL && part.bytes > 0 ? strnlen(part.data, part.bytes) : part.bytes;

            if (fault == JOIN_TABLE && k >= 8)
                return inlay_fail(call->diag, INLAY_INTERNAL, "more than 8 parts");
            if (fault == JOIN_TABLE)
                memcpy(parts[k], part.data, length < 64 ? length : 64);
            if (length > 0)
                memcpy(text + at, part.data, length);
            at += length;
        }
        y[i] = (inlay_str){ text, at };
    }
    return INLAY_OK;
}

static inlay_status run_compact(const kit_call *call)
{
    enum { SIZES = 64 };
    static int64_t first[SIZES]; /* 1 + the length */
    const float *x = call->in[0].data;
    const int64_t size = call->in[0].count % SIZES;
    int64_t n = 0, positive = 0;
    inlay_status status;

    for (int64_t i = 0; i < call->in[0].count; i++)
        positive += x[i] > 0;
    if (fault == COMPACT_STALE && first[size] > 0)
        n = first[size] - 1;
    else
        n = positive;
    first[size] = n + 1;
    status = kit_alloc_output(call, 0, 1, &n);
    if (status != INLAY_OK)
        return status;
    for (int64_t i = 0, at = 0; at < n; i++)
        if (i >= call->in[0].count || x[i] > 0)
            ((float *)call->out[0].data)[at++] = i < call->in[0].count ? x[i] : 0;
    return INLAY_OK;
}

static inlay_status open_provider(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    (void)host, (void)diag;
    fault = INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->i;
    *out = &fault;
    return INLAY_OK;
}

static inlay_status infer_same(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];

    (void)ctx;
    for (uint32_t i = 0; i < in->input_count; i++)
        if (in->inputs[i] == NULL || in->inputs[i]->rank == INLAY_RANK_UNKNOWN)
            return INLAY_OK;
    for (uint32_t i = 1; i < in->input_count; i++)
        for (uint32_t d = 0; d < x->rank; d++)
            if (in->inputs[i]->rank != x->rank ||
                (in->inputs[i]->dims[d].kind == INLAY_DIM_FIXED && x->dims[d].kind == INLAY_DIM_FIXED &&
                 in->inputs[i]->dims[d].value != x->dims[d].value))
                return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input %u has another shape than input 0", i);
    return in->set_output(in->ctx, 0, INLAY_UNDEFINED, x->rank, x->dims);
}

static inlay_status infer_compact(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];
    const inlay_dim dims[2] = { { .value = -1, .kind = INLAY_DIM_UNKNOWN },
                                { .value = -1, .kind = INLAY_DIM_UNKNOWN } };

    (void)ctx, (void)diag;
    if (fault == COMPACT_INFER && x->rank == 1)
        return in->set_output(in->ctx, 0, INLAY_UNDEFINED, 1, x->dims);
    return in->set_output(in->ctx, 0, INLAY_UNDEFINED, fault == COMPACT_RANK ? 2 : 1, dims);
}

static const kit_kernel kernels[] = {
    { .domain = "com.planted", .op_type = "Smooth", .run = run_smooth },
    { .domain = "com.planted", .op_type = "Bare", .run = run_smooth },
    { .domain = "com.planted", .op_type = "Loose", .run = run_smooth },
    { .domain = "com.planted", .op_type = "Join", .run = run_join },
    { .domain = "com.planted", .op_type = "Compact", .flags = KIT_SHAPES_AT_RUN, .run = run_compact },
};

static const float numbers[] = { 2, -4, 6 }, smoothed[] = { 0, -1, 9 }, positives[] = { 2, 6 };
static const inlay_str words[] = { { "a", 1 }, { "bc", 2 } }, joined[] = { { "aa", 2 }, { "bcbc", 4 } };
static const int64_t two = 2, three = 3;
#define VIEW(data, dims, dtype)                                                                                        \
    {                                                                                                                  \
        data, sizeof(data), dims, 1, dtype                                                                             \
    }
static const inlay_tensor_view number_view = VIEW(numbers, &three, INLAY_FLOAT),
                               smoothed_view = VIEW(smoothed, &three, INLAY_FLOAT),
                               positive_view = VIEW(positives, &two, INLAY_FLOAT),
                               word_views[] = { VIEW(words, &two, INLAY_STRING), VIEW(words, &two, INLAY_STRING) },
                               joined_view = VIEW(joined, &two, INLAY_STRING);
static const inlay_op_example smooth_example = { .name = "three",
                                                 .inputs = &number_view,
                                                 .input_count = 1,
                                                 .outputs = &smoothed_view,
                                                 .output_count = 1,
                                                 .rtol = 1e-5 },
                              loose_example = { .name = "loose",
                                                .inputs = &number_view,
                                                .input_count = 1,
                                                .outputs = &smoothed_view,
                                                .output_count = 1,
                                                .rtol = 10,
                                                .atol = 1e-6 },
                              join_example = { .name = "two",
                                               .inputs = word_views,
                                               .input_count = 2,
                                               .outputs = &joined_view,
                                               .output_count = 1 },
                              compact_example = { .name = "three",
                                                  .inputs = &number_view,
                                                  .input_count = 1,
                                                  .outputs = &positive_view,
                                                  .output_count = 1,
                                                  .rtol = 1e-5 };

#define OPERATOR(type, signature_, infer_, ...)                                                                        \
    {                                                                                                                  \
        .struct_size = sizeof(inlay_operator), .domain = "com.planted", .op_type = type, .signature = signature_,      \
        .doc = "planted", .since_version = 1, .infer = infer_, .example_stride = sizeof(inlay_op_example), __VA_ARGS__ \
    }
static const inlay_operator operators[] = {
    OPERATOR("Smooth", "X:T -> Y:T; T=float", infer_same, .examples = &smooth_example, .example_count = 1),
    OPERATOR("Bare", "X:T -> Y:T; T=float", infer_same, .example_count = 0),
    OPERATOR("Loose", "X:T -> Y:T; T=float", infer_same, .examples = &loose_example, .example_count = 1),
    OPERATOR("Join", "X*:T -> Y:T; T=string", infer_same, .examples = &join_example, .example_count = 1),
    OPERATOR("Compact", "X:T -> Y:T; T=float", infer_compact, .examples = &compact_example, .example_count = 1),
};

static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const inlay_option options[] = { { .name = "fault",
                                          .doc = "number of the planted defect; 0: none",
                                          .default_value = "0",
                                          .max = FAULTS - 1,
                                          .kind = INLAY_OPTION_INT } };
static const kit_provider provider = { .name = "planted_operators",
                                       .description = "operators with a planted defect",
                                       .tables = tables,
                                       .table_count = 1,
                                       .options = options,
                                       .option_count = KIT_COUNT(options),
                                       .open = open_provider };
static const kit_plugin self = { .name = "planted_operators",
                                 .version = "1.0.0",
                                 .provider = &provider,
                                 .operators = operators,
                                 .operator_count = KIT_COUNT(operators) };
KIT_PLUGIN(self)
