/* Operands that operators normally have as constants (axes, sizes, bounds), computed at run time: every operator that
 * has some, with outputs of free and declared sizes, and of sizes that do not depend on the operands, on every
 * provider. Results are those of the same model with constants. */
#include "graph_script.h"

enum { MOST_OPERANDS = 6 };

struct operand {
    const char *name, *type, *dims, *values; /* type: of graph_script.h; type NULL: random floats, always an input */
};

struct row {
    const char *nodes; /* computes y */
    struct operand operands[MOST_OPERANDS];
    int64_t opset; /* 0 = 21 */
};

#define X(dims)                                                                                                        \
    {                                                                                                                  \
        "x", NULL, dims, NULL                                                                                          \
    }
#define INTS(name, dims, values)                                                                                       \
    {                                                                                                                  \
        name, "i", dims, values                                                                                        \
    }
#define REDUCE(op)                                                                                                     \
    { .nodes = "y = " op "(x, a) keepdims=0", .operands = { X("2,3,4"), INTS("a", "3", "0,1,2") }, .opset = 18 },      \
        { .nodes = "y = " op "(x, a) keepdims=0", .operands = { X("2,3,4"), INTS("a", "3", "2,-3,1") }, .opset = 18 }, \
        { .nodes = "y = " op "(x, a) keepdims=0", .operands = { X("2,3,4"), INTS("a", "2", "-1,0") }, .opset = 18 },   \
        { .nodes = "y = " op "(x, a) keepdims=1", .operands = { X("2,3,4"), INTS("a", "1", "1") }, .opset = 18 },      \
        { .nodes = "y = " op "(x, a) keepdims=1", .operands = { X("2,3,4"), INTS("a", "3", "0,1,2") }, .opset = 18 },  \
    {                                                                                                                  \
        "y = " op "(x, a) noop_with_empty_axes=1", { X("2,3,4"), INTS("a", "0", "") }, 18                              \
    }

static const struct row rows[] = {
    REDUCE("ReduceSum"),
    REDUCE("ReduceMean"),
    REDUCE("ReduceMax"),
    REDUCE("ReduceMin"),
    REDUCE("ReduceProd"),
    REDUCE("ReduceL1"),
    REDUCE("ReduceL2"),
    REDUCE("ReduceLogSum"),
    REDUCE("ReduceLogSumExp"),
    REDUCE("ReduceSumSquare"),
    { .nodes = "y = ReduceSum(x, a) keepdims=0", .operands = { X("5"), INTS("a", "1", "0") }, .opset = 13 },
    { .nodes = "y = ReduceSum(x, a) keepdims=0", .operands = { X("3,70000"), INTS("a", "2", "0,1") }, .opset = 13 },
    { .nodes = "y = ReduceSum(x, a) keepdims=0", .operands = { X("0,3"), INTS("a", "2", "0,1") }, .opset = 13 },
    { .nodes = "y = Slice(x, s, e, a, t)",
      .operands = { X("5,6"), INTS("s", "2", "1,-1"), INTS("e", "2", "4,0"), INTS("a", "2", "0,1"),
                    INTS("t", "2", "2,-2") } },
    { .nodes = "y = Slice(x, s, e)", .operands = { X("1,1"), INTS("s", "1", "0"), INTS("e", "1", "1") } },
    { .nodes = "y = Slice(x, s, e)", .operands = { X("0"), INTS("s", "1", "0"), INTS("e", "1", "1") } },
    { .nodes = "y = Pad(x, p)", .operands = { X("2,3"), INTS("p", "4", "0,1,2,0") } },
    { .nodes = "y = Pad(x, p, v, a) mode=constant",
      .operands = { X("2,3"), INTS("p", "2", "1,1"), { "v", "", "", "0.5" }, INTS("a", "1", "-1") } },
    { .nodes = "y = Pad(x, p) mode=reflect", .operands = { X("4,5"), INTS("p", "4", "1,2,1,0") } },
    { .nodes = "y = Expand(x, s)", .operands = { X("3,1"), INTS("s", "3", "2,1,4") } },
    { .nodes = "y = Expand(x, s)", .operands = { X("1"), INTS("s", "1", "1") } },
    { .nodes = "y = Reshape(x, s)", .operands = { X("2,6"), INTS("s", "3", "0,-1,3") } },
    { .nodes = "y = Reshape(x, s)", .operands = { X("2,6"), INTS("s", "1", "-1") } },
    { .nodes = "y = Reshape(x, s)", .operands = { X("1,1"), INTS("s", "0", "") } },
    { .nodes = "y = Tile(x, r)", .operands = { X("2,3"), INTS("r", "2", "2,3") } },
    { .nodes = "y = Squeeze(x, a)", .operands = { X("1,3,1"), INTS("a", "2", "0,-1") } },
    { .nodes = "y = Unsqueeze(x, a)", .operands = { X("3,4"), INTS("a", "2", "0,3") } },
    { .nodes = "y, z = Split(x, s) axis=1", .operands = { X("2,5"), INTS("s", "2", "2,3") } },
    { .nodes = "y, z = TopK(x, k)", .operands = { X("3,7"), INTS("k", "1", "3") } },
    { .nodes = "y = OneHot(i, d, v)",
      .operands = { X("2"), INTS("i", "3", "0,2,1"), INTS("d", "1", "4"), { "v", "", "2", "1,5" } } },
    { .nodes = "y = CumSum(x, a)", .operands = { X("3,4"), INTS("a", "", "1") } },
    { .nodes = "r = Range(s, e, t)\ny = Cast(r) to=1",
      .operands = { X("1"), INTS("s", "", "1"), INTS("e", "", "9"), INTS("t", "", "3") } },
    { .nodes = "y = ConstantOfShape(s) value=#2.5", .operands = { X("1"), INTS("s", "2", "2,3") } },
    { .nodes = "y = ConstantOfShape(s) value=#2.5", .operands = { X("1"), INTS("s", "0", "") } },
    { .nodes = "y = Trilu(x, k)", .operands = { X("4,5"), INTS("k", "", "-1") } },
    { .nodes = "y = Resize(x, _, f) mode=linear", .operands = { X("1,1,4,5"), { "f", "", "4", "1,1,2,1.5" } } },
    { .nodes = "y = Resize(x, _, _, s) mode=nearest", .operands = { X("1,1,4,5"), INTS("s", "4", "1,1,8,3") } },
    { .nodes = "y = Resize(x, r, _, s) mode=linear coordinate_transformation_mode=tf_crop_and_resize",
      .operands = { X("1,1,4,5"), { "r", "", "8", "0,0,0.2,0.1,1,1,0.9,0.7" }, INTS("s", "4", "1,1,3,3") } },
    { .nodes = "y = Upsample(x, f) mode=nearest",
      .operands = { X("1,1,4,5"), { "f", "", "4", "1,1,2,3" } },
      .opset = 9 },
    { .nodes = "y = CenterCropPad(x, s)", .operands = { X("5,3"), INTS("s", "2", "3,5") } },
    { .nodes = "y = DFT(x, l, a)", .operands = { X("1,6,1"), INTS("l", "", "4"), INTS("a", "", "1") }, .opset = 20 },
    { .nodes = "y = DFT(x, _, a) inverse=1", .operands = { X("2,6,2"), INTS("a", "", "0") }, .opset = 20 },
    { .nodes = "y = STFT(x, f, _, l)",
      .operands = { X("1,16,1"), INTS("f", "", "4"), INTS("l", "", "8") },
      .opset = 17 },
    { .nodes = "y = HannWindow(n)", .operands = { X("1"), INTS("n", "", "7") }, .opset = 17 },
    { .nodes = "y = MelWeightMatrix(n, d, r, l, h)",
      .operands = { INTS("n", "", "4"),
                    INTS("d", "", "16"),
                    INTS("r", "", "8000"),
                    { "l", "", "", "0" },
                    { "h", "", "", "4000" } },
      .opset = 17 },
    { .nodes = "y = AffineGrid(x, s)", .operands = { X("1,2,3"), INTS("s", "4", "1,1,3,2") }, .opset = 20 },
    { .nodes = "y = Col2Im(x, s, b)",
      .operands = { X("1,4,9"), INTS("s", "2", "4,4"), INTS("b", "2", "2,2") },
      .opset = 18 },
    { .nodes = "p, i = MaxPool(x) kernel_shape=2,2 strides=2,2\ny = MaxUnpool(p, i, s) kernel_shape=2,2 strides=2,2",
      .operands = { X("1,1,4,4"), INTS("s", "4", "1,1,5,5") } },
    { .nodes = "y = ReverseSequence(x, l) time_axis=0 batch_axis=1", .operands = { X("4,2"), INTS("l", "2", "3,2") } },
    { .nodes = "y = Clip(x, l, h)", .operands = { X("9"), { "l", "", "", "-0.5" }, { "h", "", "", "0.5" } } },
    { .nodes = "y = Dropout(x, r)", .operands = { X("9"), { "r", "", "", "0.5" } } },
    { .nodes = "y = Compress(x, c) axis=0", .operands = { X("4,2"), { "c", "bool", "4", "1,0,1,1" } } },
    { .nodes = "y = GatherND(x, i)", .operands = { X("3,4"), INTS("i", "2,1", "2,0") } },
    { .nodes = "y = ScatterND(x, i, u)",
      .operands = { X("3,4"), INTS("i", "2,1", "2,0"), { "u", NULL, "2,4", NULL } } },
    { .nodes = "y = GroupNormalization(x, s, b) num_groups=2",
      .operands = { X("1,4,3"), { "s", "", "4", "1,2,3,4" }, { "b", "", "4", "0,1,0,1" } } },
    { .nodes = "q = QuantizeLinear(x, s, z)\ny = DequantizeLinear(q, s, z)",
      .operands = { X("9"), { "s", "", "", "0.1" }, { "z", "uint8", "", "7" } } },
    { .nodes = "y = Conv(x, w, b) pads=1,1,1,1",
      .operands = { X("1,2,5,5"), { "w", NULL, "3,2,3,3", NULL }, { "b", "", "3", "1,2,3" } } },
    { .nodes = "q = SplitToSequence(x, s) axis=0\ny = ConcatFromSequence(q) axis=0",
      .operands = { X("5,2"), INTS("s", "2", "2,3") } },
    { .nodes = "q = SplitToSequence(x) axis=0\ny = SequenceAt(q, n)", .operands = { X("5,2"), INTS("n", "", "3") } },
};

static const struct {
    const char *name;
    const char *options[8];
} settings[] = {
    { "reference at level 0", { "providers", "reference", "level", "0" } },
    { "reference", { "providers", "reference" } },
    { "cpu", { "providers", "cpu?,reference", "policy", "priority" } },
    { "onednn", { "providers", "onednn?,reference", "policy", "priority" } },
    { "openblas", { "providers", "openblas?,reference", "policy", "priority" } },
    { "vulkan", { "providers", "vulkan?,reference", "policy", "priority" } },
};
enum { SETTINGS = sizeof settings / sizeof *settings };
static struct rig held[SETTINGS]; /* keeps the plugins loaded */

/* How the model states sizes. */
enum { CONSTANTS, FREE, DECLARED, SYMBOLIC, FORMS };
static const char *const form_names[] = { "constants", "free", "declared", "symbolic" };

static bool is_set(const struct row *row, uint32_t i)
{
    return i < MOST_OPERANDS && row->operands[i].name != NULL;
}

/* shape: of y, for DECLARED. */
static void write_script(const struct row *row, int form, const char *shape, char *script, size_t room)
{
    size_t used = 0;

    for (uint32_t i = 0; is_set(row, i); i++) {
        const struct operand *operand = &row->operands[i];
        char dims[64];
        size_t at = 0;

        (void)snprintf(dims, sizeof dims, "%s", operand->dims);
        for (uint32_t d = 0; form == SYMBOLIC && operand->dims[0] != '\0' && d < 1 + strcspn(operand->dims, ""); d++) {
            if (d > 0 && operand->dims[d - 1] != ',')
                continue;
            at += (size_t)snprintf(dims + at, sizeof dims - at, "%s%c%u", d > 0 ? "," : "", 'A' + i, d);
            if (strchr(operand->dims + d, ',') == NULL)
                break;
        }
        if (operand->type != NULL && form == CONSTANTS)
            used += (size_t)snprintf(script + used, room - used, "%s = %s[%s] %s\n", operand->name, operand->type,
                                     operand->dims, operand->values);
        else
            used += (size_t)snprintf(script + used, room - used, "%s : %s %s\n", operand->name,
                                     operand->type == NULL || operand->type[0] == '\0' ? "float"
                                     : strcmp(operand->type, "i") == 0                 ? "int64"
                                                                                       : operand->type,
                                     dims[0] == '\0' ? "-" : dims);
    }
    (void)snprintf(script + used, room - used,
                   form == DECLARED ? "%s\n-> y : %s"
                   : form == FREE   ? "%s\n=> y"
                                    : "%s\n-> y",
                   row->nodes, shape != NULL && shape[0] == '\0' ? "-" : shape);
}

static void bind_operand(struct rig *rig, uint32_t input, const struct operand *operand, uint64_t *seed)
{
    inlay_io_info info = { .struct_size = sizeof info };
    int64_t dims[INLAY_MAX_RANK];
    const uint32_t rank = mw_dims(operand->dims, dims);
    char *values = (char *)(uintptr_t)operand->values;
    inlay_value *value = NULL;
    void *data;

    (void)inlay_session_input(rig->session, input, &info);
    assert_string_equal(info.name, operand->name);
    assert_int_equal(inlay_value_create(info.dtype, rank, dims, &value, NULL), INLAY_OK);
    data = inlay_value_data(value);
    for (int64_t k = 0; k < inlay_value_count(value); k++) {
        const double number = values == NULL ? (double)random_signed(seed) : strtod(values, &values);

        values += values != NULL && *values == ',';
        if (info.dtype == INLAY_INT64)
            ((int64_t *)data)[k] = (int64_t)number;
        else if (info.dtype == INLAY_FLOAT)
            ((float *)data)[k] = (float)number;
        else
            ((uint8_t *)data)[k] = (uint8_t)number;
    }
    rig_bind(rig, input, value);
}

static struct rig run_row(const struct row *row, int form, size_t setting, const char *shape)
{
    char script[1024];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    uint64_t seed = 5;
    uint32_t input = 0;
    struct rig rig;

    write_script(row, form, shape, script, sizeof script);
    script_model(&wire, row->opset == 0 ? 21 : row->opset, script);
    if (rig_try_open(&wire, settings[setting].options, &rig, &diag) != INLAY_OK)
        fail_msg("%s, %s: %s\n%s", settings[setting].name, form_names[form], diag.text, script);
    for (uint32_t i = 0; is_set(row, i); i++)
        if (row->operands[i].type == NULL || form != CONSTANTS)
            bind_operand(&rig, input++, &row->operands[i], &seed);
    if (inlay_context_run(rig.context, NULL, &diag) != INLAY_OK)
        fail_msg("%s, %s: %s\n%s", settings[setting].name, form_names[form], diag.text, script);
    return rig;
}

static void compare(const struct row *row, int form, size_t setting, const inlay_value *got, const inlay_value *want)
{
    const float *a = inlay_value_data(got), *b = inlay_value_data(want);

    if (inlay_value_rank(got) != inlay_value_rank(want) || inlay_value_count(got) != inlay_value_count(want) ||
        memcmp(inlay_value_dims(got), inlay_value_dims(want), inlay_value_rank(want) * sizeof(int64_t)) != 0)
        fail_msg("%s, %s: another shape of\n%s", settings[setting].name, form_names[form], row->nodes);
    for (int64_t i = 0; i < inlay_value_count(want); i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(b[i]))) && a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s, %s: element %lld is %g, not %g, of\n%s", settings[setting].name, form_names[form],
                     (long long)i, (double)a[i], (double)b[i], row->nodes);
}

static void at_run_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig want = run_row(&rows[i], CONSTANTS, 0, NULL);
        const inlay_value *value = inlay_context_output(want.context, 0);
        char shape[64] = "";

        for (uint32_t d = 0; d < inlay_value_rank(value); d++)
            (void)snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", d > 0 ? "," : "",
                           (long long)inlay_value_dims(value)[d]);
        for (int form = 0; form < FORMS; form++)
            for (size_t s = 0; s < SETTINGS; s++) {
                struct rig got;

                if (strncmp(settings[s].name, "vulkan", 6) == 0 && form != FREE && i % 4 != 0)
                    continue; /* the shaders of vulkan take long to compile */
                got = run_row(&rows[i], form, s, shape);
                compare(&rows[i], form, s, inlay_context_output(got.context, 0), value);
                rig_close(&got);
            }
        rig_close(&want);
    }
}

static int hold_plugins(void **state)
{
    static const struct row row = { .nodes = "y = Relu(x)", .operands = { X("3") }, .opset = 0 };

    (void)state;
    for (size_t s = 0; s < SETTINGS; s++)
        held[s] = run_row(&row, CONSTANTS, s, NULL);
    return 0;
}

static int release_plugins(void **state)
{
    (void)state;
    for (size_t s = 0; s < SETTINGS; s++)
        rig_close(&held[s]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(at_run_time) };

    return cmocka_run_group_tests(tests, hold_plugins, release_plugins);
}
