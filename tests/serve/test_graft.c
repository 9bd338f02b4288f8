/* texts/draft/graft.h: tensors of a completed head stay in the files of the head and of the model, which are in
 * different folders, also those of bodies, constants and functions. */
#include "rig.h"
#include "texts/draft/graft.h"
#include <sys/stat.h>
#include <unistd.h>

static char folder[64] = "/tmp/inlay-graft-XXXXXX", head_path[128], model_path[128];

/* A TensorProto of one element, which is in the file numbers.bin in the model's folder. */
static void write_stored(struct wire *wire, uint32_t field, const char *name, int index)
{
    const wire_mark mark = wire_begin(wire, field);
    char offset[16];

    (void)snprintf(offset, sizeof offset, "%d", index * 4);
    mw_tensor_head(wire, name, INLAY_FLOAT, 1, (const int64_t[]){ 1 });
    mw_entry(wire, 13, "location", "numbers.bin");
    mw_entry(wire, 13, "offset", offset);
    mw_entry(wire, 13, "length", "4");
    wire_int(wire, 14, 1);
    wire_end(wire, mark);
}

/* A TensorProto of the numbers first, first + step ... in the model's file. */
static void write_raw(struct wire *wire, const char *name, uint32_t rank, const int64_t *dims, float first, float step)
{
    const wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    float numbers[64] = { 0 };
    size_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= (size_t)dims[d];
    for (size_t i = 0; i < count; i++)
        numbers[i] = first + step * (float)i;
    mw_tensor_head(wire, name, INLAY_FLOAT, rank, dims);
    wire_bytes(wire, 9, numbers, count * sizeof *numbers);
    wire_end(wire, mark);
}

static void write_constant(struct wire *wire, uint32_t field, const char *output, int index)
{
    const wire_mark node = wire_begin(wire, field);
    wire_mark attr;

    wire_text(wire, 2, output);
    wire_text(wire, 4, "Constant");
    attr = mw_attr_begin(wire, "value", 4);
    write_stored(wire, 5, NULL, index);
    wire_end(wire, attr);
    wire_end(wire, node);
}

/* add(x) = x + number `index`. */
static void write_function(struct wire *wire, int index)
{
    wire_mark function = wire_begin(wire, 25), node;

    wire_text(wire, 1, "add");
    wire_text(wire, 4, "x");
    wire_text(wire, 5, "y");
    write_constant(wire, 7, "more", index);
    node = wire_begin(wire, 7);
    mw_list(wire, 1, "x,more");
    mw_list(wire, 2, "y");
    wire_text(wire, 4, "Add");
    wire_end(wire, node);
    mw_opset(wire, 9, "", 17);
    wire_text(wire, 10, "my");
    wire_end(wire, function);
}

/* hidden = inputs_embeds + add((up ? 64 ones + number 0 : number 1) + 2 * number 2). narrow: its logits are hidden in
 * float16; otherwise it has none. */
static void write_head(bool narrow)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), node;
    mw_body body;

    mw_value(&wire, MW_INPUT, "inputs_embeds", INLAY_FLOAT, "1,S,1");
    mw_value(&wire, MW_INPUT, "up", INLAY_BOOL, "");
    mw_scalar(&wire, "twice", INLAY_INT64, 2);
    node = mw_node_begin(&wire, "If", "up", "chosen");
    body = mw_body_begin(&wire, "then_branch", "then");
    write_raw(&wire, "ones", 1, (const int64_t[]){ 64 }, 1, 0);
    write_stored(&wire, MW_INITIALIZER, "unit", 0);
    mw_node(&wire, "ReduceSum", "ones", "sum");
    mw_node(&wire, "Add", "sum,unit", "then_sum");
    mw_value(&wire, MW_OUTPUT, "then_sum", INLAY_FLOAT, "1");
    mw_body_end(&wire, body);
    body = mw_body_begin(&wire, "else_branch", "else");
    write_constant(&wire, MW_NODE, "ten", 1);
    mw_value(&wire, MW_OUTPUT, "ten", INLAY_FLOAT, "1");
    mw_body_end(&wire, body);
    wire_end(&wire, node);
    node = mw_node_begin(&wire, "Loop", "twice,_,chosen", "repeated");
    body = mw_body_begin(&wire, "body", "loop");
    mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "");
    mw_value(&wire, MW_INPUT, "go", INLAY_BOOL, "");
    mw_value(&wire, MW_INPUT, "before", INLAY_FLOAT, "1");
    write_stored(&wire, MW_INITIALIZER, "step", 2);
    mw_node(&wire, "Identity", "go", "goes_on");
    mw_node(&wire, "Add", "before,step", "after");
    mw_value(&wire, MW_OUTPUT, "goes_on", INLAY_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "after", INLAY_FLOAT, "1");
    mw_body_end(&wire, body);
    wire_end(&wire, node);
    node = mw_node_begin(&wire, "add", "repeated", "more");
    wire_text(&wire, 7, "my");
    wire_end(&wire, node);
    mw_node(&wire, "Add", "inputs_embeds,more", "hidden");
    if (narrow) {
        mw_node_int(&wire, "Cast", "hidden", "logits", "to", INLAY_FLOAT16);
        mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT16, "1,S,1");
    } else {
        mw_value(&wire, MW_OUTPUT, "hidden", INLAY_FLOAT, "1,S,1");
    }
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "my", 1);
    write_function(&wire, 3);
    mw_save(&wire, head_path);
    wire_deinit(&wire);
}

/* word: 3 or 5; logits = 2 * seen + number 0. */
static void write_model(void)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "input_ids", INLAY_INT64, "1,S");
    write_raw(&wire, "words", 2, (const int64_t[]){ 2, 1 }, 3, 2);
    write_raw(&wire, "to_words", 2, (const int64_t[]){ 1, 1 }, 2, 0);
    mw_node(&wire, "Gather", "words,input_ids", "word");
    mw_node(&wire, "Neg", "word", "seen");
    mw_node(&wire, "MatMul", "seen,to_words", "product");
    write_constant(&wire, MW_NODE, "bias", 0);
    mw_node(&wire, "Add", "product,bias", "logits");
    mw_value(&wire, MW_OUTPUT, "logits", INLAY_FLOAT, "1,S,1");
    wire_end(&wire, mark);
    mw_save(&wire, model_path);
    wire_deinit(&wire);
}

static struct rig complete(void)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire made = { 0 };
    inlay_options *options;
    char dir[256];

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    if (text_graft(head_path, model_path, options, &made, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_options_get(options, "external_dir", dir, sizeof dir, NULL, &diag), INLAY_OK);
    inlay_options_destroy(options);
    return rig_open(&made, (const char *const[]){ "external_dir", dir, NULL });
}

static void expect(struct rig *rig, bool up, uint32_t output, float first, float second)
{
    rig_set(rig, 0, INLAY_INT64, "1,2", (const int64_t[]){ 0, 1 });
    rig_set(rig, 1, INLAY_BOOL, "", (const uint8_t[]){ up });
    rig_run(rig);
    rig_expect_floats(rig, output, "1,2,1", (const float[]){ first, second });
}

static void test_product(void **state)
{
    struct rig rig;

    (void)state;
    write_head(false);
    rig = complete();
    expect(&rig, true, 0, 3 + 1265, 5 + 1265);
    expect(&rig, true, 1, 2 * 1268 + 0.5f, 2 * 1270 + 0.5f);
    expect(&rig, false, 1, 2 * 1213 + 0.5f, 2 * 1215 + 0.5f);
    rig_close(&rig);
}

static void test_narrow(void **state)
{
    struct rig rig;

    (void)state;
    write_head(true);
    rig = complete();
    expect(&rig, true, 0, 1268, 1270);
    expect(&rig, false, 0, 1213, 1215);
    rig_close(&rig);
}

static void write_numbers(const char *path, const float *numbers, size_t count)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(numbers, sizeof *numbers, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static int make_files(void **state)
{
    char path[128];

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (const char *name = "head\0model\0"; *name != '\0'; name += strlen(name) + 1) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)snprintf(head_path, sizeof head_path, "%s/head/head.onnx", folder);
    (void)snprintf(model_path, sizeof model_path, "%s/model/model.onnx", folder);
    (void)snprintf(path, sizeof path, "%s/head/numbers.bin", folder);
    write_numbers(path, (const float[]){ 1, 10, 100, 1000 }, 4);
    (void)snprintf(path, sizeof path, "%s/model/numbers.bin", folder);
    write_numbers(path, (const float[]){ 0.5f }, 1);
    write_model();
    return 0;
}

static int remove_files(void **state)
{
    static const char *const names[] = { "head/head.onnx",   "head/numbers.bin",  "head",
                                         "model/model.onnx", "model/numbers.bin", "model" };
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_product), cmocka_unit_test(test_narrow) };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
