/* Tests a device before it is used, since drivers compile some shaders wrongly. One small region with every shader runs
 * as in a session, and its results are compared with the expected ones. The verdict (which check failed, if any) is
 * cached per driver version, in the process and in the cache folder. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <stdlib.h>

enum { MAX_INPUTS = 3, LONG_ROW = VULKAN_MAX_LOOP_ROUNDS };

struct sample {
    inlay_dtype dtype;
    uint32_t rows, count; /* shape [rows, count / rows], or [count] if rows is 0; count 0: none */
    bool known;           /* known before the run */
    const void *data;     /* NULL: all 1 for an input; 1, 2, 3, ... for a result */
};

struct check {
    const char *what, *op;
    uint32_t version;
    bool uses_previous; /* the first input is the result of the previous check */
    struct sample in[MAX_INPUTS], want;
    const char *direction;   /* attribute of BitShift */
    const void *alternative; /* alternative results */
};

#define LIST(dtype, type, ...)                                                                                         \
    {                                                                                                                  \
        dtype, 0, sizeof((const type[]){ __VA_ARGS__ }) / sizeof(type), false, (const type[])                          \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define TABLE(rows, type, ...)                                                                                         \
    {                                                                                                                  \
        INLAY_FLOAT, rows, sizeof((const type[]){ __VA_ARGS__ }) / sizeof(type), false, (const type[])                 \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define HALVES(rows, columns, data)                                                                                    \
    {                                                                                                                  \
        INLAY_FLOAT16, rows, (rows) * (columns), false, data                                                           \
    }
#define I8(...) LIST(INLAY_INT8, int8_t, __VA_ARGS__)
#define U8(...) LIST(INLAY_UINT8, uint8_t, __VA_ARGS__)
#define I32(...) LIST(INLAY_INT32, int32_t, __VA_ARGS__)
#define U32(...) LIST(INLAY_UINT32, uint32_t, __VA_ARGS__)
#define I64(...) LIST(INLAY_INT64, int64_t, __VA_ARGS__)
#define F16(...) LIST(INLAY_FLOAT16, uint16_t, __VA_ARGS__)
#define F32(...) LIST(INLAY_FLOAT, float, __VA_ARGS__)
#define BITS(...) LIST(INLAY_FLOAT, uint32_t, __VA_ARGS__)
#define BOOLS(...) LIST(INLAY_BOOL, uint8_t, __VA_ARGS__)
#define TINY 0x00000001, 0x807fffff, 0x00400000
#define NAN_INF 0x7fc00000, 0x7f800000, 0xff800000, 0x3f800000 /* NaN, infinity, -infinity, 1 */

/* Operands and result of a MatMul of float16, filled by fill_halves(): with loads of single elements, and of eight. */
static uint16_t narrow[3][12 * 7], wide[3][136 * 136];
/* The same of a MatMulInteger, filled by fill_bytes(). */
enum { BYTE_ROWS = 40, BYTE_DEPTH = 70, BYTE_COLUMNS = 24, BYTE_ZERO = 129 };
static uint8_t left_bytes[BYTE_ROWS * BYTE_DEPTH];
static int8_t right_bytes[BYTE_DEPTH * BYTE_COLUMNS];
static int32_t byte_sums[BYTE_ROWS * BYTE_COLUMNS];

static const struct check checks[] = {
    { "negative indexes of 32 bits", "Gather", 13, .in = { I32(10, 11, 12, 13), I32(-1, 0, -4, 2) },
      .want = I32(13, 10, 10, 12) },
    { "negative indexes of 64 bits", "Gather", 13, .in = { I32(10, 11, 12, 13), I64(-1, 0, -4, 2) },
      .want = I32(13, 10, 10, 12) },
    { "negative indexes to write to", "ScatterElements", 18, .in = { I32(10, 11, 12, 13), I32(-1, 1), I32(20, 21) },
      .want = I32(10, 21, 12, 20) },
    { "comparisons of 32-bit integers", "Less", 13, .in = { I32(-1, 2, INT32_MIN, 5), I32(1, -2, 0, 5) },
      .want = BOOLS(1, 0, 1, 0) },
    { "comparisons of 8-bit integers", "Less", 13, .in = { I8(-1, 2, -128, 5), I8(1, -2, 0, 5) },
      .want = BOOLS(1, 0, 1, 0) },
    { "comparisons of 64-bit integers", "Less", 13, .in = { I64(-1, INT64_C(1) << 40, INT64_MIN, 5), I64(1, -2, 0, 5) },
      .want = BOOLS(1, 0, 1, 0) },
    { "division of negative integers", "Div", 14,
      .in = { I32(-7, 7, -8, 9), { INLAY_INT32, 0, 4, true, (const int32_t[]){ 2, -2, -3, 4 } } },
      .want = I32(-3, -3, 2, 2) },
    { "shifts", "BitShift", 11, .in = { U32(0x80000000, 0xffffffff, 1), U32(31, 4, 0) }, .want = U32(1, 0x0fffffff, 1),
      .direction = "RIGHT" },
    { "shifts of 8-bit integers", "BitShift", 11, .in = { U8(255, 3), U8(1, 6) }, .want = U8(254, 192),
      .direction = "LEFT" },
    { "casts of floats to integers", "Cast", 13, .in = { F32(-1.5f, 7.9f, 3e9f, -3e9f) },
      .want = I32(-1, 7, INT32_MAX, INT32_MIN) },
    { "casts of integers to floats", "Cast", 13, .in = { I32(-1, INT32_MIN, 16777216) },
      .want = F32(-1, -2147483648.0f, 16777216) },
    { "casts of 64-bit integers", "Cast", 13, .in = { I64(-1, -(INT64_C(1) << 40), 3) },
      .want = F32(-1, -1099511627776.0f, 3) },
    { "casts of 8-bit integers", "Cast", 13, .in = { I8(-1, -128, 127) }, .want = I32(-1, -128, 127) },
    { "casts to half floats", "Cast", 13, .in = { F32(1, 65504, -0.5f) }, .want = F16(0x3c00, 0x7bff, 0xb800) },
    { "casts of half floats", "Cast", 13, .in = { F16(0x3c00, 0x7c00, 0xb800) },
      .want = BITS(0x3f800000, 0x7f800000, 0xbf000000) },
    { "denormals that are moved", "Gather", 13, .in = { BITS(TINY), I32(0, 1, 2) }, .want = BITS(TINY) },
    { "denormals that are computed with", "Mul", 14, .in = { BITS(TINY), F32(1, 1, 1) }, .want = BITS(TINY),
      .alternative = (const uint32_t[]){ 0, 0x80000000, 0 } },
    { "infinity and NaN", "IsNaN", 13, .in = { BITS(NAN_INF) }, .want = BOOLS(1, 0, 0, 0) },
    { "functions of infinity and NaN", "Exp", 13, .in = { BITS(0xff800000, 0) }, .want = BITS(0, 0x3f800000) },
    { "loops of many rounds", "CumSum", 14,
      .in = { { INLAY_INT32, 0, LONG_ROW, false, NULL }, { INLAY_INT64, 0, 1, true, (const int64_t[]){ 0 } } },
      .want = { INLAY_INT32, 0, LONG_ROW, false, NULL } },
    { "barriers between dispatches", "Gather", 13, .uses_previous = true,
      .in = { { INLAY_INT32, 0, LONG_ROW, false, NULL }, I32(-1, 0) }, .want = I32(LONG_ROW, 1) },
    { "barriers within a workgroup", "ReduceSum", 13,
      .in = { { INLAY_FLOAT, 0, 4096, false, NULL }, { INLAY_INT64, 0, 1, true, (const int64_t[]){ 0 } } },
      .want = F32(4096) },
    { "products", "MatMul", 13, .in = { TABLE(2, float, 1, 2, 3, -4, 5, -6), TABLE(3, float, 1, -1, 2, 0, 3, 4) },
      .want = TABLE(2, float, 14, 11, -12, -20) },
    { "products of 8-bit integers", "MatMulInteger", 10,
      .in = { { INLAY_UINT8, 2, 10, false, (const uint8_t[]){ 1, 2, 255, 0, 7, 200, 3, 128, 127, 9 } },
              { INLAY_INT8, 5, 10, false, (const int8_t[]){ 1, -128, 127, 2, -3, 4, 5, 6, 7, -8 } },
              { INLAY_UINT8, 0, 1, false, (const uint8_t[]){ 129 } } },
      .want = { INLAY_INT32, 2, 4, false, (const int32_t[]){ -18134, 16836, -16778, -8396 } } },
    { "sums along rows", "Softmax", 13, .in = { TABLE(2, float, 0, 0, 7, 7) },
      .want = TABLE(2, float, 0.5f, 0.5f, 0.5f, 0.5f) },
    /* The last ones: matrix units, if the device has them. */
    { "products of half floats", "MatMul", 13, .in = { HALVES(12, 5, narrow[0]), HALVES(5, 7, narrow[1]) },
      .want = HALVES(12, 7, narrow[2]) },
    { "large products of half floats", "MatMul", 13, .in = { HALVES(136, 72, wide[0]), HALVES(72, 136, wide[1]) },
      .want = HALVES(136, 136, wide[2]) },
    { "large products of 8-bit integers", "MatMulInteger", 10,
      .in = { { INLAY_UINT8, BYTE_ROWS, KIT_COUNT(left_bytes), false, left_bytes },
              { INLAY_INT8, BYTE_DEPTH, KIT_COUNT(right_bytes), false, right_bytes },
              { INLAY_UINT8, 0, 1, false, (const uint8_t[]){ BYTE_ZERO } } },
      .want = { INLAY_INT32, BYTE_ROWS, KIT_COUNT(byte_sums), false, byte_sums } },
};

/* MATRIX_CHECKS: the first check of matrix units. WITHOUT_MATRICES: a verdict, all checks pass if they are not used. */
enum {
    CHECKS = KIT_COUNT(checks),
    MATRIX_CHECKS = CHECKS - 3,
    WITHOUT_MATRICES = CHECKS + 1,
    MAX_VALUES = CHECKS * (MAX_INPUTS + 1)
};

/* The float16 of an integer of at most 11 bits. */
static uint16_t half_of(int32_t number)
{
    const uint32_t magnitude = (uint32_t)(number < 0 ? -number : number);
    const uint32_t exponent = magnitude > 0 ? 31 - (uint32_t)__builtin_clz(magnitude) : 0;

    INLAY_CHECK(exponent <= 10);
    return magnitude == 0 ? 0
                          : (uint16_t)((number < 0 ? 0x8000u : 0) | (exponent + 15) << 10 |
                                       ((magnitude << (10 - exponent)) & 0x3ffu));
}

static int32_t left_element(int64_t row, int64_t k)
{
    return (int32_t)((3 * row + k) % 5) - 2;
}

static int32_t right_element(int64_t k, int64_t column)
{
    return (int32_t)((k + 5 * column) % 7) - 3;
}

/* Writes operands of small integers, whose product is exact in float16, and that product. */
static void fill_halves(const struct check *check, uint16_t *left, uint16_t *right, uint16_t *product)
{
    const int64_t rows = check->in[0].rows, depth = check->in[1].rows, columns = check->want.count / rows;

    for (int64_t i = 0; i < rows * depth; i++)
        left[i] = half_of(left_element(i / depth, i % depth));
    for (int64_t i = 0; i < depth * columns; i++)
        right[i] = half_of(right_element(i / columns, i % columns));
    for (int64_t i = 0; i < rows * columns; i++) {
        int32_t sum = 0;

        for (int64_t k = 0; k < depth; k++)
            sum += left_element(i / columns, k) * right_element(k, i % columns);
        product[i] = half_of(sum);
    }
}

static void fill_bytes(void)
{
    for (uint32_t i = 0; i < KIT_COUNT(left_bytes); i++)
        left_bytes[i] = (uint8_t)(i * 37 + i / BYTE_DEPTH);
    for (uint32_t i = 0; i < KIT_COUNT(right_bytes); i++)
        right_bytes[i] = (int8_t)(i * 53 + i / BYTE_COLUMNS);
    for (uint32_t i = 0; i < KIT_COUNT(byte_sums); i++) {
        byte_sums[i] = 0;
        for (uint32_t k = 0; k < BYTE_DEPTH; k++)
            byte_sums[i] += ((int32_t)left_bytes[i / BYTE_COLUMNS * BYTE_DEPTH + k] - BYTE_ZERO) *
                            right_bytes[k * BYTE_COLUMNS + i % BYTE_COLUMNS];
    }
}

/* The checks as one region, with its memory. */
struct self_test {
    gpu_device *device;
    inlay_graph graph;
    inlay_node_info nodes[CHECKS];
    inlay_attr_info attrs[CHECKS];
    inlay_value_info values[MAX_VALUES];
    inlay_value_state states[MAX_VALUES];
    inlay_dim dims[MAX_VALUES][2];
    int64_t sizes[MAX_VALUES][2];
    uint32_t node_values[CHECKS][MAX_INPUTS + 1]; /* inputs of a node, then its result */
    uint32_t node_indexes[CHECKS], inputs[MAX_VALUES], outputs[CHECKS], input_count, value_count;
    uint64_t cookies[CHECKS];
    uint8_t constant_uses[MAX_VALUES];
    inlay_placement placements[MAX_VALUES];
    inlay_tensor_arg input_args[MAX_VALUES], output_args[CHECKS];
    uint64_t in_bytes, out_bytes;
    uint8_t *in, *out;    /* host copies of inputs and results */
    gpu_buffer memory[3]; /* inputs, results, workspace */
};

static inlay_str text_of(const char *text)
{
    return (inlay_str){ text, (uint32_t)strlen(text) };
}

static uint64_t bytes_of(const struct sample *sample)
{
    return (uint64_t)sample->count * vulkan_size_of(sample->dtype);
}

/* Adds a value to the graph. Advances *at by its size if its elements are on the device. */
static uint32_t add_value(struct self_test *test, const struct sample *sample, uint32_t flags, uint64_t *at,
                          inlay_tensor_arg *arg)
{
    const uint32_t value = test->value_count++, rank = sample->rows > 0 ? 2 : 1;

    INLAY_CHECK(value < MAX_VALUES);
    for (uint32_t d = 0; d < rank; d++) {
        test->sizes[value][d] = rank == 1 ? sample->count : d == 0 ? sample->rows : sample->count / sample->rows;
        test->dims[value][d] = (inlay_dim){ .kind = INLAY_DIM_FIXED, .value = test->sizes[value][d] };
    }
    test->values[value] = (inlay_value_info){ .name = text_of("value"),
                                              .kind = INLAY_VALUE_TENSOR,
                                              .flags = flags,
                                              .dtype = sample->dtype,
                                              .rank = rank,
                                              .dims = test->dims[value],
                                              .data = sample->known ? sample->data : NULL,
                                              .data_bytes = sample->known ? bytes_of(sample) : 0,
                                              .producer = INLAY_NONE };
    test->states[value] = (inlay_value_state){ .dims = test->sizes[value],
                                               .data = test->values[value].data,
                                               .data_bytes = test->values[value].data_bytes,
                                               .rank = rank,
                                               .dtype = sample->dtype };
    *arg = (inlay_tensor_arg){ .buffer = { .offset = *at, .bytes = bytes_of(sample) },
                               .dims = test->sizes[value],
                               .rank = rank,
                               .dtype = sample->dtype };
    if (!sample->known)
        *at += (bytes_of(sample) + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
    return value;
}

static void add_check(struct self_test *test, uint32_t number)
{
    const struct check *check = &checks[number];
    uint32_t count = 0;

    for (; count < MAX_INPUTS && check->in[count].count > 0; count++) {
        const struct sample *sample = &check->in[count];

        INLAY_CHECK(number > 0 || !check->uses_previous);
        if (count == 0 && check->uses_previous) {
            test->node_values[number][0] = test->outputs[number - 1];
            continue;
        }
        test->node_values[number][count] =
            add_value(test, sample, sample->known ? INLAY_VALUE_CONSTANT : INLAY_VALUE_GRAPH_INPUT, &test->in_bytes,
                      &test->input_args[test->input_count]);
        if (!sample->known)
            test->inputs[test->input_count++] = test->node_values[number][count];
    }
    test->outputs[number] = test->node_values[number][MAX_INPUTS] =
        add_value(test, &check->want, INLAY_VALUE_GRAPH_OUTPUT, &test->out_bytes, &test->output_args[number]);
    test->values[test->outputs[number]].producer = test->node_indexes[number] = number;
    test->attrs[number] = (inlay_attr_info){ .name = text_of("direction"),
                                             .kind = INLAY_ATTR_STRING,
                                             .s = text_of(check->direction != NULL ? check->direction : "") };
    test->nodes[number] = (inlay_node_info){ .name = text_of(check->what),
                                             .domain = text_of("ai.onnx"),
                                             .op_type = text_of(check->op),
                                             .since_version = check->version,
                                             .inputs = test->node_values[number],
                                             .outputs = &test->node_values[number][MAX_INPUTS],
                                             .input_count = count,
                                             .output_count = 1,
                                             .attrs = &test->attrs[number],
                                             .attr_count = check->direction != NULL,
                                             .attr_stride = sizeof test->attrs[0] };
}

static void fill(uint8_t *to, const struct sample *sample, bool counts)
{
    for (uint32_t i = 0; sample->data == NULL && i < sample->count; i++) {
        const int32_t whole = counts ? (int32_t)i + 1 : 1;
        const float real = (float)whole;

        memcpy(to + 4 * (size_t)i, sample->dtype == INLAY_FLOAT ? (const void *)&real : &whole, 4);
    }
    if (sample->data != NULL)
        memcpy(to, sample->data, bytes_of(sample));
}

static inlay_status allocate_buffers(struct self_test *test, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint32_t at = 0;

    test->in = calloc(1, test->in_bytes);
    test->out = calloc(1, test->out_bytes);
    if (test->in == NULL || test->out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to test a Vulkan device");
    INLAY_TRY(gpu_buffer_create(test->device, test->in_bytes, &test->memory[0], diag));
    INLAY_TRY(gpu_buffer_create(test->device, test->out_bytes, &test->memory[1], diag));
    for (uint32_t node = 0; node < CHECKS; node++)
        for (uint32_t i = 0; i < test->nodes[node].input_count; i++)
            if (!checks[node].in[i].known && (i > 0 || !checks[node].uses_previous))
                fill(test->in + test->input_args[at++].buffer.offset, &checks[node].in[i], false);
    INLAY_CHECK(at == test->input_count);
    for (uint32_t i = 0; i < test->input_count; i++)
        test->input_args[i].buffer.handle = (uintptr_t)&test->memory[0];
    for (uint32_t i = 0; i < CHECKS; i++)
        test->output_args[i].buffer.handle = (uintptr_t)&test->memory[1];
    status = gpu_write(test->device, &test->memory[0], 0, test->in, test->in_bytes, diag);
done:
    return status;
}

static inlay_status run(vulkan_state *state, struct self_test *test, inlay_diag *diag)
{
    const inlay_compile_request compile = { .struct_size = sizeof compile,
                                            .graph = &test->graph,
                                            .nodes = test->node_indexes,
                                            .cookies = test->cookies,
                                            .inputs = test->inputs,
                                            .outputs = test->outputs,
                                            .node_count = CHECKS,
                                            .offer_count = CHECKS,
                                            .input_count = test->input_count,
                                            .output_count = CHECKS,
                                            .placements = test->placements,
                                            .placement_stride = sizeof test->placements[0],
                                            .constants = test->constant_uses,
                                            .max_threads = 1 };
    inlay_specialize_request specialize = { .struct_size = sizeof specialize,
                                            .values = test->states,
                                            .value_count = test->value_count,
                                            .value_stride = sizeof test->states[0],
                                            .max_threads = 1 };
    inlay_exec_args args = { .struct_size = sizeof args,
                             .inputs = test->input_args,
                             .outputs = test->output_args,
                             .input_count = test->input_count,
                             .output_count = CHECKS,
                             .arg_stride = sizeof test->input_args[0],
                             .diag = diag };
    const gpu_copy copy_back = { .from = &test->memory[1], .host = test->out, .bytes = test->out_bytes };
    inlay_compiled *compiled = NULL;
    inlay_instance *in = NULL;
    inlay_status status = INLAY_OK;

    INLAY_TRY(vulkan_compile_on(state, test->device, &compile, &compiled, diag));
    INLAY_TRY(vulkan_specialize(state, compiled, &specialize, &in, diag));
    INLAY_TRY(gpu_buffer_create(test->device, specialize.workspace_bytes + 1, &test->memory[2], diag));
    args.workspace = (inlay_buffer){ .handle = (uintptr_t)&test->memory[2], .bytes = specialize.workspace_bytes };
    INLAY_TRY(vulkan_execute(state, compiled, in, &args));
    INLAY_TRY(gpu_copy_list(test->device, &copy_back, 1, diag));
done:
    if (compiled != NULL)
        vulkan_release_instance(state, compiled, in);
    vulkan_release_compiled(state, compiled);
    return status;
}

/* The first wrong element, or -1. */
static int64_t find_wrong_element(const struct check *check, const uint8_t *got, uint8_t *want)
{
    const size_t size = vulkan_size_of(check->want.dtype);

    fill(want, &check->want, true);
    for (uint32_t i = 0; i < check->want.count; i++)
        if (memcmp(got + i * size, want + i * size, size) != 0 &&
            (check->alternative == NULL ||
             memcmp(got + i * size, (const uint8_t *)check->alternative + i * size, size) != 0))
            return i;
    return -1;
}

/* Runs all checks. *out_failed: the index of the first failing check; CHECKS: all passed. A status other than INLAY_OK:
 * the device did not run the checks. */
static inlay_status run_checks(vulkan_state *state, gpu_device *device, uint32_t *out_failed, inlay_diag *diag)
{
    struct self_test *test = calloc(1, sizeof *test);
    inlay_status status = INLAY_OK;

    if (test == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to test a Vulkan device");
    test->device = device;
    for (uint32_t index = 0; index < CHECKS; index++)
        add_check(test, index);
    test->graph = (inlay_graph){ .struct_size = sizeof test->graph,
                                 .name = text_of("self_test"),
                                 .nodes = test->nodes,
                                 .values = test->values,
                                 .inputs = test->inputs,
                                 .outputs = test->outputs,
                                 .node_count = CHECKS,
                                 .node_stride = sizeof test->nodes[0],
                                 .value_count = test->value_count,
                                 .value_stride = sizeof test->values[0],
                                 .input_count = test->input_count,
                                 .output_count = CHECKS };
    INLAY_TRY(allocate_buffers(test, diag));
    INLAY_TRY(run(state, test, diag));
    *out_failed = CHECKS;
    for (uint32_t index = CHECKS; index-- > 0;)
        if (find_wrong_element(&checks[index], test->out + test->output_args[index].buffer.offset, test->in) >= 0)
            *out_failed = index;
done:
    for (uint32_t i = 0; i < KIT_COUNT(test->memory); i++)
        gpu_buffer_destroy(device, &test->memory[i]);
    free(test->in);
    free(test->out);
    free(test);
    return status;
}

struct verdict {
    vulkan_device_key key;
    uint32_t failed;
    bool known;
};

static struct verdict verdicts[GPU_MAX_DEVICES];
static pthread_mutex_t verdicts_lock = PTHREAD_MUTEX_INITIALIZER;

static struct verdict *find_verdict(const vulkan_device_key *key)
{
    uint32_t i = 0;

    while (i < GPU_MAX_DEVICES - 1 && verdicts[i].known && memcmp(&verdicts[i].key, key, sizeof *key) != 0)
        i++;
    return &verdicts[i];
}

/* Runs all checks, and again without matrix units if a product of theirs is wrong or their shader is refused. */
static inlay_status judge(vulkan_state *state, gpu_device *device, uint32_t *out_failed, inlay_diag *diag)
{
    inlay_status status;

    fill_halves(&checks[MATRIX_CHECKS], narrow[0], narrow[1], narrow[2]);
    fill_halves(&checks[MATRIX_CHECKS + 1], wide[0], wide[1], wide[2]);
    fill_bytes();
    status = run_checks(state, device, out_failed, diag);
    if ((device->facts.matrix_size == 0 && device->facts.byte_matrix_size == 0) ||
        (status == INLAY_OK && (*out_failed < MATRIX_CHECKS || *out_failed == CHECKS)))
        return status;
    device->facts.matrix_size = device->facts.byte_matrix_size = 0;
    status = run_checks(state, device, out_failed, diag);
    if (status == INLAY_OK && *out_failed == CHECKS)
        *out_failed = WITHOUT_MATRICES;
    return status;
}

static inlay_status load_or_run(vulkan_state *state, gpu_device *device, struct verdict *verdict, inlay_diag *diag)
{
    char name[64];
    size_t bytes;
    uint32_t *cached;
    inlay_status status = INLAY_OK;

    gpu_cache_file_name(device, "trial", name);
    cached = kit_kept_load(state->cache_dir, name, &verdict->key, sizeof verdict->key, &bytes);
    if (cached != NULL && bytes == sizeof verdict->failed) {
        verdict->failed = *cached;
    } else {
        status = judge(state, device, &verdict->failed, diag);
        if (status == INLAY_OK)
            kit_kept_save(state->cache_dir, name, &verdict->key, sizeof verdict->key, &verdict->failed,
                          sizeof verdict->failed);
    }
    free(cached);
    verdict->known = status == INLAY_OK;
    return status;
}

inlay_status vulkan_self_test(vulkan_state *state, gpu_device *device, inlay_diag *diag)
{
    const gpu_facts *facts = &device->facts;
    const vulkan_device_key key = vulkan_device_key_of(device);
    uint32_t failed = CHECKS;
    inlay_status status = INLAY_OK;

    if (device->fault == GPU_FAULT_WRONG_RESULT) {
        failed = device->fault_countdown < CHECKS ? device->fault_countdown : CHECKS - 1;
    } else if (device->fault == GPU_FAULT_NONE || device->fault == GPU_FAULT_AS_GPU) {
        struct verdict *verdict;

        (void)pthread_mutex_lock(&verdicts_lock);
        verdict = find_verdict(&key);
        if (!verdict->known || memcmp(&verdict->key, &key, sizeof key) != 0) {
            *verdict = (struct verdict){ .key = key };
            status = load_or_run(state, device, verdict, diag);
        }
        failed = status == INLAY_OK ? verdict->failed : failed;
        (void)pthread_mutex_unlock(&verdicts_lock);
    }
    if (status == INLAY_OK && failed == WITHOUT_MATRICES) {
        device->facts.matrix_size = device->facts.byte_matrix_size = 0;
        state->host->log(state->host->ctx, INLAY_LOG_WARNING,
                         "vulkan: the device's matrix units fail a check of products, and are not used");
    }
    if (status != INLAY_OK || failed >= CHECKS)
        return status;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "Vulkan device %s (driver %u.%u.%u) is not used: it fails the check of %s, operator %s; update "
                      "its driver, or choose another by option device",
                      facts->name, VK_API_VERSION_MAJOR(facts->driver_version),
                      VK_API_VERSION_MINOR(facts->driver_version), VK_API_VERSION_PATCH(facts->driver_version),
                      checks[failed].what, checks[failed].op);
}
