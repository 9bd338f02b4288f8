/* A device is tried before it is trusted: drivers compile what shaders say wrongly more often than hardware computes
 * wrongly, and nothing but a comparison tells. One small region of every skeleton runs as a user's would; the verdict
 * stays with the driver's version, in the process and in the cache folder. */
#include "region.h"
#include <stdlib.h>

enum { MOST_IN = 3, LONG_ROW = VR_MOST_ROUNDS };

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
    gpu_device *g;
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

static uint64_t bytes_of(const struct sample *x)
{
    return (uint64_t)x->count * vr_size_of(x->dtype);
}

/* A value of the graph; *at becomes what lies behind it, of those whose elements are on the device. */
static uint32_t add_value(struct trial *t, const struct sample *x, uint32_t flags, uint64_t *at, inlay_tensor_arg *arg)
{
    const uint32_t v = t->value_count++, rank = x->rows > 0 ? 2 : 1;

    for (uint32_t d = 0; d < rank; d++) {
        t->sizes[v][d] = rank == 1 ? x->count : d == 0 ? x->rows : x->count / x->rows;
        t->dims[v][d] = (inlay_dim){ .kind = INLAY_DIM_FIXED, .value = t->sizes[v][d] };
    }
    t->values[v] = (inlay_value_info){ .name = text_of("value"),
                                       .kind = INLAY_VALUE_TENSOR,
                                       .flags = flags,
                                       .dtype = x->dtype,
                                       .rank = rank,
                                       .dims = t->dims[v],
                                       .data = x->known ? x->data : NULL,
                                       .data_bytes = x->known ? bytes_of(x) : 0,
                                       .producer = INLAY_NONE };
    t->states[v] = (inlay_value_state){ .dims = t->sizes[v],
                                        .data = t->values[v].data,
                                        .data_bytes = t->values[v].data_bytes,
                                        .rank = rank,
                                        .dtype = x->dtype };
    *arg = (inlay_tensor_arg){
        .buffer = { .offset = *at, .bytes = bytes_of(x) }, .dims = t->sizes[v], .rank = rank, .dtype = x->dtype
    };
    if (!x->known)
        *at += (bytes_of(x) + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
    return v;
}

static void add_check(struct trial *t, uint32_t n)
{
    const struct check *c = &checks[n];
    uint32_t count = 0;

    for (; count < MOST_IN && c->in[count].count > 0; count++) {
        const struct sample *x = &c->in[count];

        if (count == 0 && c->goes_on) {
            t->lists[n][0] = t->outputs[n - 1];
            continue;
        }
        t->lists[n][count] = add_value(t, x, x->known ? INLAY_VALUE_CONSTANT : INLAY_VALUE_GRAPH_INPUT, &t->in_bytes,
                                       &t->input_args[t->input_count]);
        if (!x->known)
            t->inputs[t->input_count++] = t->lists[n][count];
    }
    t->outputs[n] = t->lists[n][MOST_IN] =
        add_value(t, &c->want, INLAY_VALUE_GRAPH_OUTPUT, &t->out_bytes, &t->output_args[n]);
    t->values[t->outputs[n]].producer = t->numbers[n] = n;
    t->attrs[n] = (inlay_attr_info){ .name = text_of("direction"),
                                     .kind = INLAY_ATTR_STRING,
                                     .s = text_of(c->direction != NULL ? c->direction : "") };
    t->nodes[n] = (inlay_node_info){ .name = text_of(c->what),
                                     .domain = text_of("ai.onnx"),
                                     .op_type = text_of(c->op),
                                     .since_version = c->version,
                                     .inputs = t->lists[n],
                                     .outputs = &t->lists[n][MOST_IN],
                                     .input_count = count,
                                     .output_count = 1,
                                     .attrs = &t->attrs[n],
                                     .attr_count = c->direction != NULL,
                                     .attr_stride = sizeof t->attrs[0] };
}

static void fill(uint8_t *to, const struct sample *x, bool counts)
{
    for (uint32_t i = 0; x->data == NULL && i < x->count; i++) {
        const int32_t whole = counts ? (int32_t)i + 1 : 1;
        const float real = (float)whole;

        memcpy(to + 4 * (size_t)i, x->dtype == INLAY_FLOAT ? (const void *)&real : &whole, 4);
    }
    if (x->data != NULL)
        memcpy(to, x->data, bytes_of(x));
}

static inlay_status give_memory(struct trial *t, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint32_t at = 0;

    t->in = calloc(1, t->in_bytes);
    t->out = calloc(1, t->out_bytes);
    if (t->in == NULL || t->out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to try a Vulkan device");
    INLAY_TRY(gpu_buffer_make(t->g, t->in_bytes, &t->memory[0], diag));
    INLAY_TRY(gpu_buffer_make(t->g, t->out_bytes, &t->memory[1], diag));
    for (uint32_t n = 0; n < CHECKS; n++)
        for (uint32_t i = 0; i < t->nodes[n].input_count; i++)
            if (!checks[n].in[i].known && (i > 0 || !checks[n].goes_on))
                fill(t->in + t->input_args[at++].buffer.offset, &checks[n].in[i], false);
    for (uint32_t i = 0; i < t->input_count; i++)
        t->input_args[i].buffer.handle = (uintptr_t)&t->memory[0];
    for (uint32_t i = 0; i < CHECKS; i++)
        t->output_args[i].buffer.handle = (uintptr_t)&t->memory[1];
    status = gpu_write(t->g, &t->memory[0], 0, t->in, t->in_bytes, diag);
done:
    return status;
}

static inlay_status run(vr_state *s, struct trial *t, inlay_diag *diag)
{
    const inlay_compile_request compile = { .struct_size = sizeof compile,
                                            .graph = &t->graph,
                                            .nodes = t->numbers,
                                            .cookies = t->cookies,
                                            .inputs = t->inputs,
                                            .outputs = t->outputs,
                                            .node_count = CHECKS,
                                            .offer_count = CHECKS,
                                            .input_count = t->input_count,
                                            .output_count = CHECKS,
                                            .placements = t->places,
                                            .placement_stride = sizeof t->places[0],
                                            .constants = t->fates,
                                            .max_threads = 1 };
    inlay_specialize_request specialize = { .struct_size = sizeof specialize,
                                            .values = t->states,
                                            .value_count = t->value_count,
                                            .value_stride = sizeof t->states[0],
                                            .max_threads = 1 };
    inlay_exec_args args = { .struct_size = sizeof args,
                             .inputs = t->input_args,
                             .outputs = t->output_args,
                             .input_count = t->input_count,
                             .output_count = CHECKS,
                             .arg_stride = sizeof t->input_args[0],
                             .diag = diag };
    const gpu_copy home = { .from = &t->memory[1], .host = t->out, .bytes = t->out_bytes };
    inlay_compiled *c = NULL;
    inlay_instance *in = NULL;
    inlay_status status = INLAY_OK;

    INLAY_TRY(vr_compile_on(s, t->g, &compile, &c, diag));
    INLAY_TRY(vr_specialize(s, c, &specialize, &in, diag));
    INLAY_TRY(gpu_buffer_make(t->g, specialize.workspace_bytes + 1, &t->memory[2], diag));
    args.workspace = (inlay_buffer){ .handle = (uintptr_t)&t->memory[2], .bytes = specialize.workspace_bytes };
    INLAY_TRY(vr_execute(s, c, in, &args));
    INLAY_TRY(gpu_copies(t->g, &home, 1, diag));
done:
    if (c != NULL)
        vr_release_instance(s, c, in);
    vr_release_compiled(s, c);
    return status;
}

/* The first element that is wrong, or -1. */
static int64_t find_wrong(const struct check *c, const uint8_t *got, uint8_t *want)
{
    const size_t size = vr_size_of(c->want.dtype);

    fill(want, &c->want, true);
    for (uint32_t i = 0; i < c->want.count; i++)
        if (memcmp(got + i * size, want + i * size, size) != 0 &&
            (c->also == NULL || memcmp(got + i * size, (const uint8_t *)c->also + i * size, size) != 0))
            return i;
    return -1;
}

/* The number of the check that fails, CHECKS where none does; other statuses than INLAY_OK: the device does not even
 * run them. */
static inlay_status try_device(vr_state *s, gpu_device *g, uint32_t *out_failed, inlay_diag *diag)
{
    struct trial *t = calloc(1, sizeof *t);
    inlay_status status = INLAY_OK;

    if (t == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to try a Vulkan device");
    t->g = g;
    for (uint32_t n = 0; n < CHECKS; n++)
        add_check(t, n);
    t->graph = (inlay_graph){ .struct_size = sizeof t->graph,
                              .name = text_of("trial"),
                              .nodes = t->nodes,
                              .values = t->values,
                              .inputs = t->inputs,
                              .outputs = t->outputs,
                              .node_count = CHECKS,
                              .node_stride = sizeof t->nodes[0],
                              .value_count = t->value_count,
                              .value_stride = sizeof t->values[0],
                              .input_count = t->input_count,
                              .output_count = CHECKS };
    INLAY_TRY(give_memory(t, diag));
    INLAY_TRY(run(s, t, diag));
    *out_failed = CHECKS;
    for (uint32_t n = CHECKS; n-- > 0;)
        if (find_wrong(&checks[n], t->out + t->output_args[n].buffer.offset, t->in) >= 0)
            *out_failed = n;
done:
    for (uint32_t i = 0; i < KIT_COUNT(t->memory); i++)
        gpu_buffer_drop(g, &t->memory[i]);
    free(t->in);
    free(t->out);
    free(t);
    return status;
}

/* ------------------------------------------------------------------ the verdict */

/* What a verdict holds for. */
struct subject {
    uint64_t shaders;
    uint32_t vendor, driver_version;
    uint8_t uuid[VK_UUID_SIZE];
    char name[GPU_NAME];
};

struct verdict {
    struct subject of;
    uint32_t failed;
    bool known;
};

static struct verdict verdicts[GPU_MOST_DEVICES];
static pthread_mutex_t verdicts_lock = PTHREAD_MUTEX_INITIALIZER;

static struct verdict *find_verdict(const struct subject *of)
{
    uint32_t i = 0;

    while (i < GPU_MOST_DEVICES - 1 && verdicts[i].known && memcmp(&verdicts[i].of, of, sizeof *of) != 0)
        i++;
    return &verdicts[i];
}

static inlay_status judge(vr_state *s, gpu_device *g, struct verdict *v, inlay_diag *diag)
{
    char name[64];
    size_t bytes;
    uint32_t *kept;
    inlay_status status = INLAY_OK;

    gpu_kept_name(g, "trial", name);
    kept = kit_kept_load(s->cache_dir, name, &v->of, sizeof v->of, &bytes);
    if (kept != NULL && bytes == sizeof v->failed) {
        v->failed = *kept;
    } else {
        status = try_device(s, g, &v->failed, diag);
        if (status == INLAY_OK)
            kit_kept_save(s->cache_dir, name, &v->of, sizeof v->of, &v->failed, sizeof v->failed);
    }
    free(kept);
    v->known = status == INLAY_OK;
    return status;
}

inlay_status vr_try(vr_state *s, gpu_device *g, inlay_diag *diag)
{
    const gpu_facts *f = &g->facts;
    struct subject of = { .shaders = gpu_shaders_hash(), .vendor = f->vendor, .driver_version = f->driver_version };
    uint32_t failed = CHECKS;
    inlay_status status = INLAY_OK;

    memcpy(of.uuid, f->pipeline_uuid, sizeof of.uuid);
    (void)snprintf(of.name, sizeof of.name, "%s", f->name);
    if (g->fault == GPU_WRONG) {
        failed = g->fault_left < CHECKS ? g->fault_left : CHECKS - 1;
    } else if (g->fault == GPU_SOUND) {
        struct verdict *v;

        (void)pthread_mutex_lock(&verdicts_lock);
        v = find_verdict(&of);
        if (!v->known || memcmp(&v->of, &of, sizeof of) != 0) {
            *v = (struct verdict){ .of = of };
            status = judge(s, g, v, diag);
        }
        failed = status == INLAY_OK ? v->failed : failed;
        (void)pthread_mutex_unlock(&verdicts_lock);
    }
    if (status != INLAY_OK || failed >= CHECKS)
        return status;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "Vulkan device %s (driver %u.%u.%u) is not used: it fails the check of %s, operator %s; update "
                      "its driver, or choose another by option device",
                      f->name, VK_API_VERSION_MAJOR(f->driver_version), VK_API_VERSION_MINOR(f->driver_version),
                      VK_API_VERSION_PATCH(f->driver_version), checks[failed].what, checks[failed].op);
}
