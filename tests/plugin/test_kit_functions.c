/* Functions of the kit that kernels call: patterns of groups, types, shapes, the CPU, kept files. */
#include "cmocka_all.h"
#include "inlay/kit_group.h"
#include "inlay/kit_shapes.h"
#include "inlay/kit_region.h"
#include <stdlib.h>
#include <unistd.h>
#include <utime.h>

static void files_are_kept(void **unused)
{
    char dir[] = "/tmp/inlay-kept-XXXXXX", path[64], left[64];
    char data[1000], *found;
    size_t bytes = 77;
    FILE *file;

    (void)unused;
    memset(data, 'x', sizeof data);
    assert_non_null(mkdtemp(dir));
    assert_null(kit_kept_load(dir, "a", "me", 2, &bytes));
    assert_int_equal(bytes, 0);
    kit_kept_save(dir, "a", "me", 2, data, sizeof data);
    found = kit_kept_load(dir, "a", "me", 2, &bytes);
    assert_non_null(found);
    assert_int_equal(bytes, sizeof data);
    assert_memory_equal(found, data, sizeof data);
    free(found);
    assert_null(kit_kept_load(dir, "a", "him", 3, &bytes)); /* another identity */
    assert_null(kit_kept_load("", "a", "me", 2, &bytes));
    assert_null(kit_kept_load(NULL, "a", "me", 2, &bytes));
    kit_kept_save(NULL, "a", "me", 2, data, sizeof data); /* no folder */
    (void)snprintf(path, sizeof path, "%s/a", dir);
    for (long at = 0; at < 1008; at += 503) { /* one byte is wrong */
        kit_kept_save(dir, "a", "me", 2, data, sizeof data);
        file = fopen(path, "r+");
        assert_non_null(file);
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fputc('!', file), '!');
        assert_int_equal(fclose(file), 0);
        assert_null(kit_kept_load(dir, "a", "me", 2, &bytes));
    }
    /* The temporary file of a process that died and had the same number does not prevent saving. */
    (void)snprintf(left, sizeof left, "%s/a.%ld", dir, (long)getpid());
    file = fopen(left, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(utime(left, &(struct utimbuf){ 0 }), 0);
    kit_kept_save(dir, "a", "me", 2, data, sizeof data);
    found = kit_kept_load(dir, "a", "me", 2, &bytes);
    assert_non_null(found);
    free(found);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(dir), 0);
}

/* Levels agree with the compiler's detection; no extension is reported above the level. */
static void instructions_of_the_cpu(void **unused)
{
    uint32_t extra = UINT32_MAX, level = kit_isa(&extra);

    (void)unused;
    assert_int_equal(kit_isa(NULL), level);
#if defined(__x86_64__)
    assert_int_equal(level >= INLAY_ISA_X86_64_V3,
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"));
    assert_int_equal(level >= INLAY_ISA_X86_64_V4,
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"));
    if (level >= INLAY_ISA_X86_64_V4) {
        assert_int_equal((extra & INLAY_ISA_AVX512_VNNI) != 0, __builtin_cpu_supports("avx512vnni") != 0);
        assert_int_equal((extra & INLAY_ISA_AVX512_VBMI) != 0, __builtin_cpu_supports("avx512vbmi") != 0);
        assert_int_equal((extra & INLAY_ISA_AVX512_BF16) != 0, __builtin_cpu_supports("avx512bf16") != 0);
    }
#endif
    if (level < INLAY_ISA_X86_64_V4)
        assert_int_equal(extra & ~(uint32_t)(INLAY_ISA_AVX_VNNI | INLAY_ISA_AMX), 0);
    if (level < INLAY_ISA_X86_64_V3)
        assert_int_equal(extra, 0);
}

/* x -> Conv -> Relu -> Add(, z) -> y; the result of Relu has a second reader or not, and may be an output. */
static void groups_of_a_pattern(void **unused)
{
    static const char *const types[] = { "Conv", "Relu", "Add", "Neg" };
    static const uint32_t inputs[][2] = { { 0, 1 }, { 3, INLAY_NONE }, { 2, 4 }, { 5, INLAY_NONE } };
    static const uint32_t outputs[] = { 3, 4, 5, 6 };
    inlay_node_info nodes[4];
    inlay_value_info values[7];
    const uint8_t candidates[] = { 1, 1, 0, 1 };
    const inlay_graph graph = { .struct_size = sizeof graph,
                                .nodes = nodes,
                                .values = values,
                                .node_count = 4,
                                .node_stride = sizeof nodes[0],
                                .value_count = 7,
                                .value_stride = sizeof values[0] };
    static const struct {
        const char *pattern;
        uint32_t first, count;
    } rows[] = {
        { "Conv", 0, 1 },
        { "Conv Relu", 0, 2 },
        { "Conv Relu? Add?", 0, 3 },
        { "Conv Clip|Relu Add", 0, 3 },
        { "Conv Clip? Relu", 0, 2 },
        { "Conv Clip? Add?", 0, 1 },
        { "Conv Clip Relu", 0, 0 },
        { "Relu Conv", 1, 0 },
        { "Relu Add Neg", 1, 3 },
        { "Relu", 0, 0 },
        { "com.other:Conv", 0, 0 },
        { "com.other:Neg|Relu Add", 1, 2 },
        { "ai.onnx:Add Neg?", 2, 2 },
        { "Con", 0, 0 },
        { "Conv2", 0, 0 },
    };
    uint32_t found[KIT_GROUP_NODES], *readers;

    (void)unused;
    for (uint32_t v = 0; v < 7; v++)
        values[v] = (inlay_value_info){ .kind = INLAY_VALUE_TENSOR, .producer = INLAY_NONE };
    values[6].flags = INLAY_VALUE_GRAPH_OUTPUT;
    for (uint32_t n = 0; n < 4; n++)
        nodes[n] = (inlay_node_info){ .domain = { "ai.onnx", 7 },
                                      .op_type = { types[n], strlen(types[n]) },
                                      .inputs = inputs[n],
                                      .outputs = &outputs[n],
                                      .input_count = inputs[n][1] == INLAY_NONE ? 1 : 2,
                                      .output_count = 1 };
    readers = kit_readers(&graph);
    assert_non_null(readers);
    assert_int_equal(readers[3], 1);
    assert_int_equal(readers[6], INLAY_NONE);
    for (size_t i = 0; i < KIT_COUNT(rows); i++) {
        assert_int_equal(kit_group_match(&graph, readers, NULL, rows[i].pattern, rows[i].first, found), rows[i].count);
        for (uint32_t k = 0; k < rows[i].count; k++)
            assert_int_equal(found[k], rows[i].first + k);
    }
    assert_int_equal(kit_group_match(&graph, readers, candidates, "Conv Relu? Add?", 0, found), 2);
    free(readers);
    values[4].flags = INLAY_VALUE_GRAPH_OUTPUT; /* the graph returns what Relu computes */
    readers = kit_readers(&graph);
    assert_non_null(readers);
    assert_int_equal(kit_group_match(&graph, readers, NULL, "Conv Relu? Add?", 0, found), 2);
    free(readers);
}

/* Sixteen inputs and eight outputs, each with types of its own. */
static void types_of_many_values(void **unused)
{
    uint64_t in[16], out[8];
    uint32_t inputs[16], outputs[8];
    inlay_value_info values[24] = { { .dtype = INLAY_UNDEFINED } };
    inlay_node_info info = { .inputs = inputs, .outputs = outputs, .input_count = 16, .output_count = 8 };
    const inlay_graph graph = {
        .struct_size = sizeof graph, .values = values, .value_count = 24, .value_stride = sizeof values[0]
    };
    const kit_node node = { .graph = &graph, .info = &info };
    kit_refusal why = { 0, "", "" };

    (void)unused;
    for (uint32_t i = 0; i < 24; i++) {
        const inlay_dtype dtype = i % 2 == 0 ? INLAY_FLOAT : INLAY_INT8;

        values[i].dtype = dtype;
        (i < 16 ? in : out)[i % 16] = INLAY_DTYPE_BIT(dtype);
        (i < 16 ? inputs : outputs)[i % 16] = i;
    }
    assert_true(kit_types_fit(&node, in, 16, out, 8, &why));
    in[14] = out[6] = KIT_ANY;
    assert_true(kit_types_fit(&node, in, 16, out, 8, &why));
    in[15] = KIT_BIT(FLOAT);
    assert_false(kit_types_fit(&node, in, 16, out, 8, &why));
    assert_string_equal(why.text, "input 15 is int8");
    inputs[15] = INLAY_NONE;
    assert_true(kit_types_fit(&node, in, 16, out, 8, &why));
    out[7] = KIT_BIT(FLOAT);
    assert_false(kit_types_fit(&node, in, 16, out, 8, &why));
    assert_string_equal(why.text, "output 7 is int8");
    assert_true(kit_types_fit(&node, in, 16, out, 7, &why));
}

static void shapes_of_windows_and_operands(void **unused)
{
    static const struct {
        uint32_t mode;
        kit_window window;
        int64_t begin, end;
    } windows[] = {
        { KIT_PAD_EXPLICIT, { 7, 7, 3, 1, 1, 1, 1 }, 1, 1 },   { KIT_PAD_VALID, { 7, 5, 3, 1, 1, 9, 9 }, 0, 0 },
        { KIT_PAD_SAME_UPPER, { 6, 3, 3, 2, 1, 9, 9 }, 0, 1 }, { KIT_PAD_SAME_LOWER, { 6, 3, 3, 2, 1, 9, 9 }, 1, 0 },
        { KIT_PAD_SAME_UPPER, { 9, 3, 1, 3, 1, 9, 9 }, 0, 0 }, { KIT_PAD_SAME_UPPER, { 5, 5, 3, 1, 2, 9, 9 }, 2, 2 },
    };
    const int64_t a[] = { 2, 1, 5 }, b[] = { 3, 1 }, bad[] = { 4, 5 };
    const int64_t axes[] = { -1, 0 }, twice[] = { 0, -3 };
    int64_t out[INLAY_MAX_RANK], steps[3];
    bool is_listed[3];
    uint32_t rank, axis;

    (void)unused;
    for (size_t i = 0; i < KIT_COUNT(windows); i++) {
        kit_window window = windows[i].window;

        kit_window_pad(&window, windows[i].mode);
        assert_int_equal(window.begin, windows[i].begin);
        assert_int_equal(window.end, windows[i].end);
    }
    assert_int_equal(kit_window_past(&(kit_window){ 6, 4, 2, 2, 1, 1, 0 }), 1); /* ceil_mode */
    assert_true(kit_broadcast(a, 3, b, 2, out, &rank));
    assert_int_equal(rank, 3);
    assert_int_equal(out[0] * 100 + out[1] * 10 + out[2], 235);
    assert_false(kit_broadcast(b, 2, bad, 2, out, &rank));
    kit_broadcast_steps(b, 2, 3, steps);
    assert_int_equal(steps[0], 0);
    assert_int_equal(steps[1], 1);
    assert_int_equal(steps[2], 0);
    assert_true(kit_axis(-3, 3, &axis));
    assert_int_equal(axis, 0);
    assert_false(kit_axis(3, 3, &axis));
    assert_false(kit_axis(-4, 3, &axis));
    assert_true(kit_axes(axes, 2, 3, is_listed));
    assert_true(is_listed[0] && !is_listed[1] && is_listed[2]);
    assert_false(kit_axes(twice, 2, 3, is_listed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_a_pattern),
        cmocka_unit_test(types_of_many_values),
        cmocka_unit_test(shapes_of_windows_and_operands),
        cmocka_unit_test(instructions_of_the_cpu),
        cmocka_unit_test(files_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
