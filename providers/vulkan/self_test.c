/* A device is tried before it is trusted: drivers compile what shaders say wrongly more often than hardware computes
 * wrongly, and nothing but a comparison tells. One small region of every skeleton runs as a user's would; the verdict
 * stays with the driver's version, in the process and in the cache folder. */
#include "region.h"
#include <stdlib.h>

enum { MOST_IN = 3, LONG_ROW = VULKAN_MAX_LOOP_ROUNDS };

struct sample {
    inlay_dtype dtype;
    uint32_t rows, count; /* [rows, count / rows], or [count] where rows is 0; count 0: there is none */
    bool known;           /* before the run */
    const void *data;     /* NULL: ones as an input, and 1, 2, 3, ... as a result */
};

struct check {
    const char *what, *op;
    uint32_t version;
    bool goes_on; /* the first input is what the check before makes */
    struct sample in[MOST_IN], want;
    const char *direction; /* attribute of BitShift */
    const void *also;      /* elements that are right, too */
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
      .also = (const uint32_t[]){ 0, 0x80000000, 0 } },
    { "infinity and NaN", "IsNaN", 13, .in = { BITS(NAN_INF) }, .want = BOOLS(1, 0, 0, 0) },
    { "functions of infinity and NaN", "Exp", 13, .in = { BITS(0xff800000, 0) }, .want = BITS(0, 0x3f800000) },
    { "loops of many rounds", "CumSum", 14,
      .in = { { INLAY_INT32, 0, LONG_ROW, false, NULL }, { INLAY_INT64, 0, 1, true, (const int64_t[]){ 0 } } },
      .want = { INLAY_INT32, 0, LONG_ROW, false, NULL } },
    { "barriers between dispatches", "Gather", 13, .goes_on = true,
      .in = { { INLAY_INT32, 0, LONG_ROW, false, NULL }, I32(-1, 0) }, .want = I32(LONG_ROW, 1) },
    { "barriers within a workgroup", "ReduceSum", 13,
      .in = { { INLAY_FLOAT, 0, 4096, false, NULL }, { INLAY_INT64, 0, 1, true, (const int64_t[]){ 0 } } },
      .want = F32(4096) },
    { "products", "MatMul", 13, .in = { TABLE(2, float, 1, 2, 3, -4, 5, -6), TABLE(3, float, 1, -1, 2, 0, 3, 4) },
      .want = TABLE(2, float, 14, 11, -12, -20) },
    { "sums along rows", "Softmax", 13, .in = { TABLE(2, float, 0, 0, 7, 7) },
      .want = TABLE(2, float, 0.5f, 0.5f, 0.5f, 0.5f) },
};

enum { CHECKS = KIT_COUNT(checks), MOST_VALUES = CHECKS * (MOST_IN + 1) };

/* The checks as one region, with its memory. */
struct trial {
    gpu_device *device;
    inlay_graph graph;
    inlay_node_info nodes[CHECKS];
    inlay_attr_info attrs[CHECKS];
    inlay_value_info values[MOST_VALUES];
    inlay_value_state states[MOST_VALUES];
    inlay_dim dims[MOST_VALUES][2];
    int64_t sizes[MOST_VALUES][2];
    uint32_t lists[CHECKS][MOST_IN + 1]; /* inputs of a node, and its result at the end */
    uint32_t numbers[CHECKS], inputs[MOST_VALUES], outputs[CHECKS], input_count, value_count;
    uint64_t cookies[CHECKS];
    uint8_t fates[MOST_VALUES];
    inlay_placement places[MOST_VALUES];
    inlay_tensor_arg input_args[MOST_VALUES], output_args[CHECKS];
    uint64_t in_bytes, out_bytes;
    uint8_t *in, *out;    /* the host's copies of ... */
    gpu_buffer memory[3]; /* ... inputs, results; workspace */
};

static inlay_str text_of(const char *text)
{
    return (inlay_str){ text, (uint32_t)strlen(text) };
}

static uint64_t bytes_of(const struct sample *sample)
{
    return (uint64_t)sample->count * vulkan_size_of(sample->dtype);
}

/* A value of the graph; *at becomes what lies behind it, of those whose elements are on the device. */
static uint32_t add_value(struct trial *trial, const struct sample *sample, uint32_t flags, uint64_t *at,
                          inlay_tensor_arg *arg)
{
    const uint32_t value = trial->value_count++, rank = sample->rows > 0 ? 2 : 1;

    for (uint32_t d = 0; d < rank; d++) {
        trial->sizes[value][d] = rank == 1 ? sample->count : d == 0 ? sample->rows : sample->count / sample->rows;
        trial->dims[value][d] = (inlay_dim){ .kind = INLAY_DIM_FIXED, .value = trial->sizes[value][d] };
    }
    trial->values[value] = (inlay_value_info){ .name = text_of("value"),
                                               .kind = INLAY_VALUE_TENSOR,
                                               .flags = flags,
                                               .dtype = sample->dtype,
                                               .rank = rank,
                                               .dims = trial->dims[value],
                                               .data = sample->known ? sample->data : NULL,
                                               .data_bytes = sample->known ? bytes_of(sample) : 0,
                                               .producer = INLAY_NONE };
    trial->states[value] = (inlay_value_state){ .dims = trial->sizes[value],
                                                .data = trial->values[value].data,
                                                .data_bytes = trial->values[value].data_bytes,
                                                .rank = rank,
                                                .dtype = sample->dtype };
    *arg = (inlay_tensor_arg){ .buffer = { .offset = *at, .bytes = bytes_of(sample) },
                               .dims = trial->sizes[value],
                               .rank = rank,
                               .dtype = sample->dtype };
    if (!sample->known)
        *at += (bytes_of(sample) + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
    return value;
}

static void add_check(struct trial *trial, uint32_t number)
{
    const struct check *check = &checks[number];
    uint32_t count = 0;

    for (; count < MOST_IN && check->in[count].count > 0; count++) {
        const struct sample *sample = &check->in[count];

        if (count == 0 && check->goes_on) {
            trial->lists[number][0] = trial->outputs[number - 1];
            continue;
        }
        trial->lists[number][count] =
            add_value(trial, sample, sample->known ? INLAY_VALUE_CONSTANT : INLAY_VALUE_GRAPH_INPUT, &trial->in_bytes,
                      &trial->input_args[trial->input_count]);
        if (!sample->known)
            trial->inputs[trial->input_count++] = trial->lists[number][count];
    }
    trial->outputs[number] = trial->lists[number][MOST_IN] =
        add_value(trial, &check->want, INLAY_VALUE_GRAPH_OUTPUT, &trial->out_bytes, &trial->output_args[number]);
    trial->values[trial->outputs[number]].producer = trial->numbers[number] = number;
    trial->attrs[number] = (inlay_attr_info){ .name = text_of("direction"),
                                              .kind = INLAY_ATTR_STRING,
                                              .s = text_of(check->direction != NULL ? check->direction : "") };
    trial->nodes[number] = (inlay_node_info){ .name = text_of(check->what),
                                              .domain = text_of("ai.onnx"),
                                              .op_type = text_of(check->op),
                                              .since_version = check->version,
                                              .inputs = trial->lists[number],
                                              .outputs = &trial->lists[number][MOST_IN],
                                              .input_count = count,
                                              .output_count = 1,
                                              .attrs = &trial->attrs[number],
                                              .attr_count = check->direction != NULL,
                                              .attr_stride = sizeof trial->attrs[0] };
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

static inlay_status give_memory(struct trial *trial, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint32_t at = 0;

    trial->in = calloc(1, trial->in_bytes);
    trial->out = calloc(1, trial->out_bytes);
    if (trial->in == NULL || trial->out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to try a Vulkan device");
    INLAY_TRY(gpu_buffer_create(trial->device, trial->in_bytes, &trial->memory[0], diag));
    INLAY_TRY(gpu_buffer_create(trial->device, trial->out_bytes, &trial->memory[1], diag));
    for (uint32_t node = 0; node < CHECKS; node++)
        for (uint32_t i = 0; i < trial->nodes[node].input_count; i++)
            if (!checks[node].in[i].known && (i > 0 || !checks[node].goes_on))
                fill(trial->in + trial->input_args[at++].buffer.offset, &checks[node].in[i], false);
    for (uint32_t i = 0; i < trial->input_count; i++)
        trial->input_args[i].buffer.handle = (uintptr_t)&trial->memory[0];
    for (uint32_t i = 0; i < CHECKS; i++)
        trial->output_args[i].buffer.handle = (uintptr_t)&trial->memory[1];
    status = gpu_write(trial->device, &trial->memory[0], 0, trial->in, trial->in_bytes, diag);
done:
    return status;
}

static inlay_status run(vulkan_state *state, struct trial *trial, inlay_diag *diag)
{
    const inlay_compile_request compile = { .struct_size = sizeof compile,
                                            .graph = &trial->graph,
                                            .nodes = trial->numbers,
                                            .cookies = trial->cookies,
                                            .inputs = trial->inputs,
                                            .outputs = trial->outputs,
                                            .node_count = CHECKS,
                                            .offer_count = CHECKS,
                                            .input_count = trial->input_count,
                                            .output_count = CHECKS,
                                            .placements = trial->places,
                                            .placement_stride = sizeof trial->places[0],
                                            .constants = trial->fates,
                                            .max_threads = 1 };
    inlay_specialize_request specialize = { .struct_size = sizeof specialize,
                                            .values = trial->states,
                                            .value_count = trial->value_count,
                                            .value_stride = sizeof trial->states[0],
                                            .max_threads = 1 };
    inlay_exec_args args = { .struct_size = sizeof args,
                             .inputs = trial->input_args,
                             .outputs = trial->output_args,
                             .input_count = trial->input_count,
                             .output_count = CHECKS,
                             .arg_stride = sizeof trial->input_args[0],
                             .diag = diag };
    const gpu_copy home = { .from = &trial->memory[1], .host = trial->out, .bytes = trial->out_bytes };
    inlay_compiled *compiled = NULL;
    inlay_instance *in = NULL;
    inlay_status status = INLAY_OK;

    INLAY_TRY(vulkan_compile_on(state, trial->device, &compile, &compiled, diag));
    INLAY_TRY(vulkan_specialize(state, compiled, &specialize, &in, diag));
    INLAY_TRY(gpu_buffer_create(trial->device, specialize.workspace_bytes + 1, &trial->memory[2], diag));
    args.workspace = (inlay_buffer){ .handle = (uintptr_t)&trial->memory[2], .bytes = specialize.workspace_bytes };
    INLAY_TRY(vulkan_execute(state, compiled, in, &args));
    INLAY_TRY(gpu_copy_list(trial->device, &home, 1, diag));
done:
    if (compiled != NULL)
        vulkan_release_instance(state, compiled, in);
    vulkan_release_compiled(state, compiled);
    return status;
}

/* The first element that is wrong, or -1. */
static int64_t find_wrong(const struct check *check, const uint8_t *got, uint8_t *want)
{
    const size_t size = vulkan_size_of(check->want.dtype);

    fill(want, &check->want, true);
    for (uint32_t i = 0; i < check->want.count; i++)
        if (memcmp(got + i * size, want + i * size, size) != 0 &&
            (check->also == NULL || memcmp(got + i * size, (const uint8_t *)check->also + i * size, size) != 0))
            return i;
    return -1;
}

/* The number of the check that fails, CHECKS where none does; other statuses than INLAY_OK: the device does not even
 * run them. */
static inlay_status try_device(vulkan_state *state, gpu_device *device, uint32_t *out_failed, inlay_diag *diag)
{
    struct trial *trial = calloc(1, sizeof *trial);
    inlay_status status = INLAY_OK;

    if (trial == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to try a Vulkan device");
    trial->device = device;
    for (uint32_t n = 0; n < CHECKS; n++)
        add_check(trial, n);
    trial->graph = (inlay_graph){ .struct_size = sizeof trial->graph,
                                  .name = text_of("trial"),
                                  .nodes = trial->nodes,
                                  .values = trial->values,
                                  .inputs = trial->inputs,
                                  .outputs = trial->outputs,
                                  .node_count = CHECKS,
                                  .node_stride = sizeof trial->nodes[0],
                                  .value_count = trial->value_count,
                                  .value_stride = sizeof trial->values[0],
                                  .input_count = trial->input_count,
                                  .output_count = CHECKS };
    INLAY_TRY(give_memory(trial, diag));
    INLAY_TRY(run(state, trial, diag));
    *out_failed = CHECKS;
    for (uint32_t n = CHECKS; n-- > 0;)
        if (find_wrong(&checks[n], trial->out + trial->output_args[n].buffer.offset, trial->in) >= 0)
            *out_failed = n;
done:
    for (uint32_t i = 0; i < KIT_COUNT(trial->memory); i++)
        gpu_buffer_destroy(device, &trial->memory[i]);
    free(trial->in);
    free(trial->out);
    free(trial);
    return status;
}

/* ------------------------------------------------------------------ the verdict */

/* What a verdict holds for. */
struct subject {
    uint64_t shaders;
    uint32_t vendor, driver_version;
    uint8_t uuid[VK_UUID_SIZE];
    char name[GPU_NAME_BYTES];
};

struct verdict {
    struct subject of;
    uint32_t failed;
    bool known;
};

static struct verdict verdicts[GPU_MAX_DEVICES];
static pthread_mutex_t verdicts_lock = PTHREAD_MUTEX_INITIALIZER;

static struct verdict *find_verdict(const struct subject *of)
{
    uint32_t i = 0;

    while (i < GPU_MAX_DEVICES - 1 && verdicts[i].known && memcmp(&verdicts[i].of, of, sizeof *of) != 0)
        i++;
    return &verdicts[i];
}

static inlay_status judge(vulkan_state *state, gpu_device *device, struct verdict *verdict, inlay_diag *diag)
{
    char name[64];
    size_t bytes;
    uint32_t *kept;
    inlay_status status = INLAY_OK;

    gpu_cache_file_name(device, "trial", name);
    kept = kit_kept_load(state->cache_dir, name, &verdict->of, sizeof verdict->of, &bytes);
    if (kept != NULL && bytes == sizeof verdict->failed) {
        verdict->failed = *kept;
    } else {
        status = try_device(state, device, &verdict->failed, diag);
        if (status == INLAY_OK)
            kit_kept_save(state->cache_dir, name, &verdict->of, sizeof verdict->of, &verdict->failed,
                          sizeof verdict->failed);
    }
    free(kept);
    verdict->known = status == INLAY_OK;
    return status;
}

inlay_status vulkan_self_test(vulkan_state *state, gpu_device *device, inlay_diag *diag)
{
    const gpu_facts *facts = &device->facts;
    struct subject of = { .shaders = gpu_shaders_hash(),
                          .vendor = facts->vendor,
                          .driver_version = facts->driver_version };
    uint32_t failed = CHECKS;
    inlay_status status = INLAY_OK;

    memcpy(of.uuid, facts->pipeline_uuid, sizeof of.uuid);
    (void)snprintf(of.name, sizeof of.name, "%s", facts->name);
    if (device->fault == GPU_FAULT_WRONG_RESULT) {
        failed = device->fault_countdown < CHECKS ? device->fault_countdown : CHECKS - 1;
    } else if (device->fault == GPU_FAULT_NONE) {
        struct verdict *verdict;

        (void)pthread_mutex_lock(&verdicts_lock);
        verdict = find_verdict(&of);
        if (!verdict->known || memcmp(&verdict->of, &of, sizeof of) != 0) {
            *verdict = (struct verdict){ .of = of };
            status = judge(state, device, verdict, diag);
        }
        failed = status == INLAY_OK ? verdict->failed : failed;
        (void)pthread_mutex_unlock(&verdicts_lock);
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
