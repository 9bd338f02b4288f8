/* Option adapter: rows with different LoRA adapters in one run have the results of models with the adapter merged into
 * their weights (the oracle of operator "LowRank"); each defect of the files is one message that names the file and the
 * tensor. */
#include "cmocka_all.h"
#include "adapter_files.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include "simd/convert.h"
#include <math.h>
#include <unistd.h>

enum form { PLAIN, GEMM, HALF, FORMS };
enum { WIDTH = 24, INNER = 40, ROWS = 5, TOKENS = 3, ADAPTERS = 2 };

static char folder[] = "/tmp/inlay_adapters_XXXXXX";
static const char first_module[] = "model.layers.0.self_attn.q_proj", second_module[] = "model.layers.0.mlp.down_proj";

struct weights {
    float first[WIDTH * INNER], second[INNER * WIDTH];
};

static struct weights make_weights(void)
{
    struct weights weights;
    uint64_t seed = 3;

    for (int i = 0; i < WIDTH * INNER; i++) {
        weights.first[i] = random_signed(&seed);
        weights.second[i] = random_signed(&seed);
    }
    return weights;
}

/* Two multiplications. The first is found by the name of its weight, the second by that of its node. GEMM: the rows
 * have no axis of tokens, and the first weight is transposed. HALF: the first one is of float16. */
static onnx_bytes make_model(const struct weights *weights, enum form form)
{
    const bool gemm = form == GEMM;
    static const int64_t first[] = { WIDTH, INNER }, turned[] = { INNER, WIDTH }, rows[] = { -1, TOKENS, WIDTH };
    static const char weight[] = "model.layers.0.attn.q_proj.MatMul.weight";
    onnx_bytes graph = { .count = 0 }, file = { .count = 0 };
    static float transposed[WIDTH * INNER];
    static uint16_t halves[WIDTH * INNER];
    char inputs[128];

    for (int i = 0; i < WIDTH; i++)
        for (int k = 0; k < INNER; k++) {
            transposed[k * WIDTH + i] = weights->first[i * INNER + k];
            halves[i * INNER + k] = f32_to_f16(weights->first[i * INNER + k]);
        }
    (void)snprintf(inputs, sizeof inputs, "%s,%s", gemm ? "flat" : form == HALF ? "half" : "x", weight);
    if (form == HALF) {
        onnx_node_int(&graph, "Cast", "", "x", "half", "to", INLAY_FLOAT16);
        onnx_node(&graph, "MatMul", "", inputs, "half_q");
        onnx_node_int(&graph, "Cast", "", "half_q", "q", "to", INLAY_FLOAT);
    } else if (gemm) {
        onnx_node_int(&graph, "Flatten", "", "x", "flat", "axis", 2);
        onnx_node_int(&graph, "Gemm", "", inputs, "q", "transB", 1);
    } else {
        onnx_node(&graph, "MatMul", "", inputs, "q");
    }
    onnx_node(&graph, "Relu", "", "q", "h");
    onnx_node(&graph, "MatMul", "", "h,w", "/model/layers.0/mlp/down_proj/MatMul");
    onnx_node(&graph, "Identity", "", "/model/layers.0/mlp/down_proj/MatMul", "y");
    onnx_input(&graph, "x", INLAY_FLOAT, 3, rows);
    onnx_output(&graph, "y", INLAY_FLOAT, gemm ? 2 : 3, gemm ? (const int64_t[]){ -1, WIDTH } : rows);
    if (form == HALF)
        onnx_constant(&graph, weight, INLAY_FLOAT16, 2, first, halves, sizeof halves);
    else
        onnx_constant(&graph, weight, INLAY_FLOAT, 2, gemm ? turned : first, gemm ? transposed : weights->first,
                      sizeof transposed);
    onnx_constant(&graph, "w", INLAY_FLOAT, 2, turned, weights->second, sizeof weights->second);
    assert_int_equal(onnx_file(&file, &graph, 17, NULL), 0);
    return file;
}

/* Adapter 0 changes both multiplications, adapter 1 the first one only, with another rank and type. */
static void make_adapters(adapter_files files[ADAPTERS])
{
    uint64_t seed = 5;

    memset(files, 0, ADAPTERS * sizeof *files);
    files[0].rank = 4;
    files[0].alpha = 8;
    adapter_add(&files[0], first_module, WIDTH, INNER, "F32", &seed);
    adapter_add(&files[0], second_module, INNER, WIDTH, "F32", &seed);
    files[1].rank = 7;
    files[1].alpha = 3.5;
    adapter_add(&files[1], first_module, WIDTH, INNER, "BF16", &seed);
}

static const char *path_of(int adapter)
{
    static char path[64];

    (void)snprintf(path, sizeof path, "%s/a%d", folder, adapter);
    return path;
}

/* Creates a session with `count` adapters. */
static inlay_status open_session(const onnx_bytes *file, const char *providers, int count, inlay_session **out_session,
                                 inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status;
    char item[80];

    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", providers, diag), INLAY_OK);
    for (int i = 0; i < count; i++) {
        (void)snprintf(item, sizeof item, "a%d=%s", i, path_of(i));
        assert_int_equal(inlay_options_set(options, "adapter", item, diag), INLAY_OK);
    }
    status = inlay_session_create_from_bytes(file->data, file->count, options, out_session, diag);
    inlay_options_destroy(options);
    return status;
}

/* Runs the same rows; adapters [count], NULL: the input is left unbound. out [ROWS * TOKENS * WIDTH]. */
static inlay_status run(inlay_session *session, const int64_t *adapters, int64_t count, float *out, inlay_diag *diag)
{
    static const int64_t dims[] = { ROWS, TOKENS, WIDTH };
    inlay_context *context = NULL;
    inlay_value *x = NULL, *which = NULL;
    inlay_status status;
    uint64_t seed = 9;

    assert_int_equal(inlay_context_create(session, &context, diag), INLAY_OK);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &x, diag), INLAY_OK);
    for (int i = 0; i < ROWS * TOKENS * WIDTH; i++)
        ((float *)inlay_value_data(x))[i] = random_signed(&seed);
    assert_int_equal(inlay_context_set_input(context, 0, x, diag), INLAY_OK);
    if (adapters != NULL) {
        assert_int_equal(inlay_value_create(INLAY_INT64, 1, &count, &which, diag), INLAY_OK);
        memcpy(inlay_value_data(which), adapters, (size_t)count * sizeof *adapters);
        assert_int_equal(inlay_context_set_input(context, inlay_session_find_input(session, "adapter"), which, diag),
                         INLAY_OK);
    }
    status = inlay_context_run(context, NULL, diag);
    if (status == INLAY_OK && out != NULL)
        memcpy(out, inlay_value_data(inlay_context_output(context, 0)), ROWS * TOKENS * WIDTH * sizeof *out);
    inlay_value_unref(x);
    inlay_value_unref(which);
    inlay_context_destroy(context);
    return status;
}

static void expect_row(const float *got, const float *want, int row, enum form form, const char *what)
{
    const double error = form == HALF ? 0.1 : 1e-4; /* absolute, of sums of products that float16 rounds */

    for (int i = row * TOKENS * WIDTH; i < (row + 1) * TOKENS * WIDTH; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= error * fmax(1, fabs((double)want[i]))))
            fail_msg("%s, row %d, element %d: %g instead of %g", what, row, i % (TOKENS * WIDTH), (double)got[i],
                     (double)want[i]);
}

static void check(const char *providers, enum form form)
{
    static const int64_t chosen[ROWS] = { 0, 1, -1, 0, 1 }, one = 1;
    static float want[ADAPTERS + 1][ROWS * TOKENS * WIDTH], got[ROWS * TOKENS * WIDTH];
    static adapter_files files[ADAPTERS];
    inlay_diag diag = INLAY_DIAG_INIT;
    const struct weights plain = make_weights();
    inlay_session *session = NULL;
    onnx_bytes model;

    make_adapters(files);
    for (int i = -1; i < ADAPTERS; i++) { /* want[0]: without adapter */
        struct weights merged = plain;

        if (i >= 0) {
            assert_int_equal(adapter_write(&files[i], path_of(i), ""), 0);
            adapter_merge(&files[i], 0, merged.first);
        }
        if (i == 0)
            adapter_merge(&files[i], 2, merged.second);
        model = make_model(&merged, form);
        assert_int_equal(open_session(&model, providers, 0, &session, &diag), INLAY_OK);
        assert_int_equal(run(session, NULL, 0, want[i + 1], &diag), INLAY_OK);
        inlay_session_destroy(session);
    }
    model = make_model(&plain, form);
    if (open_session(&model, providers, ADAPTERS, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    if (run(session, chosen, ROWS, got, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    for (int row = 0; row < ROWS; row++)
        expect_row(got, want[chosen[row] + 1], row, form, providers);
    assert_int_equal(run(session, NULL, 0, got, &diag), INLAY_OK);
    for (int row = 0; row < ROWS; row++)
        expect_row(got, want[0], row, form, "by default");
    assert_int_equal(run(session, &one, 1, got, &diag), INLAY_OK);
    for (int row = 0; row < ROWS; row++)
        expect_row(got, want[2], row, form, "one for all rows");
    assert_int_equal(run(session, (const int64_t[]){ 0, 2, 0, 0, 0 }, ROWS, NULL, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "adapter[1] is 2, outside [-1, 2)"));
    assert_int_equal(run(session, chosen, 2, NULL, &diag), INLAY_SHAPE_MISMATCH);
    inlay_session_destroy(session);
}

static void rows_have_their_adapters(void **state)
{
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        check("cpu,reference", form);
        check("reference", form);
    }
}

/* Weights of a session with adapters can be replaced. */
static void weights_can_be_replaced(void **state)
{
    static const int64_t chosen[ROWS] = { 0, 1, -1, 0, 1 }, dims[] = { INNER, WIDTH };
    static float want[ROWS * TOKENS * WIDTH], got[ROWS * TOKENS * WIDTH];
    static adapter_files files[ADAPTERS];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct weights weights = make_weights();
    onnx_bytes model = make_model(&weights, PLAIN);
    inlay_session *session = NULL, *changed = NULL;
    const char *const name = "w";
    inlay_value *value = NULL;

    (void)state;
    make_adapters(files);
    for (int i = 0; i < ADAPTERS; i++)
        assert_int_equal(adapter_write(&files[i], path_of(i), ""), 0);
    assert_int_equal(open_session(&model, "cpu,reference", ADAPTERS, &session, &diag), INLAY_OK);
    for (int i = 0; i < INNER * WIDTH; i++)
        weights.second[i] *= -2;
    model = make_model(&weights, PLAIN);
    assert_int_equal(open_session(&model, "cpu,reference", ADAPTERS, &changed, &diag), INLAY_OK);
    assert_int_equal(run(changed, chosen, ROWS, want, &diag), INLAY_OK);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    memcpy(inlay_value_data(value), weights.second, sizeof weights.second);
    if (inlay_session_update(session, 1, &name, &value, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(run(session, chosen, ROWS, got, &diag), INLAY_OK);
    assert_memory_equal(got, want, sizeof want);
    inlay_value_unref(value);
    inlay_session_destroy(session);
    inlay_session_destroy(changed);
}

enum defect {
    DEFECT_NONE,
    DEFECT_TRUNCATED, /* by a byte */
    DEFECT_EMPTY,
    DEFECT_HEADER,  /* not JSON */
    DEFECT_MISSING, /* no adapter_config.json */
};

static void spoil(enum defect defect)
{
    char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", path_of(0),
                   defect == DEFECT_MISSING ? "adapter_config.json" : "adapter_model.safetensors");
    if (defect == DEFECT_MISSING) {
        assert_int_equal(unlink(path), 0);
    } else if (defect == DEFECT_HEADER) {
        FILE *file = fopen(path, "r+b");

        assert_non_null(file);
        assert_int_equal(fseek(file, 8, SEEK_SET), 0);
        assert_int_equal(fputc('[', file), '[');
        assert_int_equal(fclose(file), 0);
    } else if (defect == DEFECT_EMPTY) {
        assert_int_equal(truncate(path, 0), 0);
    } else if (defect == DEFECT_TRUNCATED) {
        FILE *file = fopen(path, "rb");

        assert_non_null(file);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        assert_int_equal(truncate(path, ftell(file) - 1), 0);
        assert_int_equal(fclose(file), 0);
    }
}

static void each_defect_is_one_message(void **state)
{
    static const struct {
        const char *module, *extra, *message[2];
        enum defect defect;
        int64_t rank, k, n;
        const char *type, *first, *name; /* first, name: replace those of the factors */
    } rows[] = {
        { .message = { "adapter_model.safetensors: tensor", "'data_offsets' is not a range" },
          .defect = DEFECT_TRUNCATED },
        { .message = { "adapter_model.safetensors", "not a safetensors file" }, .defect = DEFECT_EMPTY },
        { .message = { "adapter_model.safetensors", "header is not a JSON object" }, .defect = DEFECT_HEADER },
        { .message = { "adapter_config.json", "" }, .defect = DEFECT_MISSING },
        { .message = { "q_proj.lora_A.weight' has 23 elements along axis 1", "weight has 24" }, .k = WIDTH - 1 },
        { .message = { "q_proj.lora_B.weight' has 41 elements along axis 0", "weight has 40" }, .n = INNER + 1 },
        { .message = { "q_proj.lora_A.weight' has rank 4", "states 6" }, .rank = 6 },
        { .message = { "q_proj.lora_A.weight' has type I32", "F32, F16 and BF16" }, .type = "I32" },
        { .message = { "k_proj.lora_A.weight'", "no matrix multiplication of that module" },
          .module = "model.layers.0.self_attn.k_proj" },
        { .message = { "layers.1.self_attn.q_proj.lora_A.weight'", "no matrix multiplication of that module" },
          .module = "model.layers.1.self_attn.q_proj" },
        { .message = { "q_proj.lora_A.weight' has no lora_B", "" }, .name = "other.lora_B.weight" },
        { .message = { "'q_proj.magnitude' is neither lora_A.weight", "" }, .first = "q_proj.magnitude" },
        { .message = { "adapter_config.json", "'use_dora'" }, .extra = ",\"use_dora\":true" },
        { .message = { "adapter_config.json", "'peft_type' is not LORA" }, .extra = ",\"peft_type\":\"IA3\"" },
        { .message = { "adapter_config.json", "'modules_to_save'" }, .extra = ",\"modules_to_save\":[\"lm_head\"]" },
        { .message = { "q_proj.lora_A.weight' is of a module", "'layers_to_transform'" },
          .extra = ",\"layers_to_transform\":[1,2]" },
        { .message = { "q_proj.lora_A.weight' is of a module", "'layers_to_transform'" },
          .extra = ",\"layers_to_transform\":1" },
        { .message = { "q_proj.lora_A.weight' is of a module", "'layers_to_transform'" },
          .extra = ",\"layers_to_transform\":0,\"layers_pattern\":\"blocks\"" },
        { .message = { "q_proj.lora_A.weight' is of a module", "'target_modules'" },
          .extra = ",\"target_modules\":[\"k_proj\",\"proj\"]" },
        { .message = { "q_proj.lora_A.weight' is of a module", "'exclude_modules'" },
          .extra = ",\"exclude_modules\":[\"self_attn.q_proj\"]" },
        { .message = { NULL, NULL },
          .extra = ",\"layers_to_transform\":[1,0],\"layers_pattern\":[\"blocks\",\"layers\"]" },
        { .message = { NULL, NULL },
          .extra = ",\"layers_to_transform\":0,\"target_modules\":[\"self_attn.q_proj\"],\"exclude_modules\":[\"up_"
                   "proj\"]" },
        { .message = { NULL, NULL },
          .extra = ",\"layers_to_transform\":[],\"layers_pattern\":\"blocks\",\"target_modules\":\".*q_proj\"" },
        { .message = { NULL, NULL } }, /* without defect */
    };
    const struct weights weights = make_weights();
    const onnx_bytes model = make_model(&weights, PLAIN);
    static adapter_files files;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_session *session = NULL;
        uint64_t seed = 2;
        inlay_status status;

        memset(&files, 0, sizeof files);
        files.rank = 4;
        files.alpha = 4;
        adapter_add(&files, rows[i].module != NULL ? rows[i].module : first_module, rows[i].k > 0 ? rows[i].k : WIDTH,
                    rows[i].n > 0 ? rows[i].n : INNER, "F32", &seed);
        files.rank = rows[i].rank > 0 ? rows[i].rank : files.rank;
        if (rows[i].type != NULL)
            files.tensors[0].type = rows[i].type;
        if (rows[i].first != NULL)
            (void)snprintf(files.tensors[0].name, sizeof files.tensors[0].name, "%s", rows[i].first);
        if (rows[i].name != NULL)
            (void)snprintf(files.tensors[1].name, sizeof files.tensors[1].name, "%s", rows[i].name);
        assert_int_equal(adapter_write(&files, path_of(0), rows[i].extra != NULL ? rows[i].extra : ""), 0);
        spoil(rows[i].defect);
        status = open_session(&model, "reference", 1, &session, &diag);
        if (rows[i].message[0] == NULL) {
            assert_int_equal(status, INLAY_OK);
        } else if (status == INLAY_OK || strstr(diag.text, rows[i].message[0]) == NULL ||
                   strstr(diag.text, rows[i].message[1]) == NULL || strchr(diag.text, '\n') != NULL) {
            fail_msg("row %zu: status %d, '%s' instead of '%s ... %s'", i, (int)status, diag.text, rows[i].message[0],
                     rows[i].message[1]);
        }
        inlay_session_destroy(session);
    }
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    char path[96];

    (void)state;
    for (int i = 0; i < ADAPTERS; i++) {
        (void)snprintf(path, sizeof path, "%s/adapter_model.safetensors", path_of(i));
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/adapter_config.json", path_of(i));
        (void)unlink(path);
        (void)rmdir(path_of(i));
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_their_adapters),
        cmocka_unit_test(weights_can_be_replaced),
        cmocka_unit_test(each_defect_is_one_message),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
